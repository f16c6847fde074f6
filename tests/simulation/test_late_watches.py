"""Late watches straight into a server: as late, as orderly and as certain as those of the transport."""

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import HttpRequest
from reconcile.embedded import ApiRequest, ApiServer
from reconcile.testing.late_watches import LateWatches
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import simulate

MAPS = "/api/v1/namespaces/default/configmaps"
GAPS = st.lists(st.sampled_from([0.0, 0.01, 0.3]), min_size=1, max_size=15)
BASE = ApiServer(clock=VirtualClock())


async def heard_of(gaps: list[float], seed: int, lag: tuple[float, float]) -> list[tuple[float, float, str]]:
    """When each object was made, when it was heard of, and its name."""
    server = BASE.copy(VirtualClock(seed))
    transport = LateWatches(server, seed, lag=lag)
    made: dict[str, float] = {}
    heard: list[tuple[float, float, str]] = []

    async def make() -> None:
        for number, gap in enumerate(gaps):
            await anyio.sleep(gap)
            name = f"n{number}"
            body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
            server.handle(ApiRequest("POST", MAPS, {}, {"content-type": "application/json"}, body))
            made[name] = anyio.current_time()

    query = {"watch": "true", "resourceVersion": str(server.version)}
    async with (
        anyio.create_task_group() as tasks,
        transport.stream(HttpRequest("GET", MAPS, query)) as answer,
    ):
        tasks.start_soon(make)
        async for line in answer.chunks:
            name = msgspec.json.decode(line)["object"]["metadata"]["name"]
            heard.append((made[name], anyio.current_time(), name))
            if len(heard) == len(gaps):
                break
    return heard


@given(st.integers(0, 2**32), GAPS)
def test_every_event_comes_once_in_order_and_late_by_its_lag(seed: int, gaps: list[float]) -> None:
    heard = simulate(heard_of, gaps, seed, (0.1, 0.5), seed=seed)
    assert [name for _, _, name in heard] == [f"n{number}" for number in range(len(gaps))]
    assert all(0.1 - 1e-9 <= came - sent <= 0.5 + 1e-9 for sent, came, _ in heard)


def test_an_event_is_delayed_only_by_its_own_lag() -> None:
    heard = simulate(heard_of, [0.05] * 200, 0, (1.0, 1.0))
    assert {round(came - sent, 6) for sent, came, _ in heard} == {1.0}


def test_a_seed_always_gives_the_same_lags() -> None:
    one, two, other = (simulate(heard_of, [0.1] * 10, seed, (0.1, 2.0)) for seed in (1, 1, 2))
    assert one == two
    assert one != other


def test_a_watch_that_ends_delivers_its_events_first() -> None:
    async def main() -> list[bytes]:
        server = BASE.copy(VirtualClock())
        query = {"watch": "true", "timeoutSeconds": "5", "resourceVersion": "0"}
        async with LateWatches(server).stream(HttpRequest("GET", "/api/v1/namespaces", query)) as answer:
            return [line async for line in answer.chunks]

    lines = simulate(main)
    assert len(lines) == 4
    assert simulate(main) == lines


def test_a_zero_lag_is_refused() -> None:
    with pytest.raises(ValueError, match="expected lag="):
        LateWatches(BASE, lag=(0, 1))
