"""The transport on which news is late: nothing is lost, nothing overtakes, nothing is instant."""

from itertools import accumulate

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import HttpRequest
from informers.api_errors import OutcomeUnknown
from reconcile.testing.faults import Crash
from reconcile.testing.late_watches import LateTransport
from reconcile.testing.virtual_time import simulate
from tests.helpers.scripted_server import streaming

SEEDS = st.integers(0, 2**32)
PODS = "/api/v1/pods"
WATCH = {"watch": "true"}
GAPS = st.lists(st.sampled_from([0.0, 0.01, 0.3]), min_size=1, max_size=30)


def events(gaps: list[float]) -> list[tuple[float, bytes]]:
    return [(gap, b'{"n":%d}\n' % number) for number, gap in enumerate(gaps)]


async def arrivals(transport: LateTransport, path: str = PODS) -> list[tuple[float, bytes]]:
    async with transport.stream(HttpRequest("GET", path, WATCH)) as answer:
        return [(anyio.current_time(), chunk) async for chunk in answer.chunks]


@given(SEEDS, GAPS)
def test_order_within_a_watch_is_kept_and_nothing_is_lost(seed: int, gaps: list[float]) -> None:
    script = events(gaps)
    arrived = simulate(arrivals, LateTransport(streaming(script), seed), seed=seed)
    assert [line for _, line in arrived] == [line for _, line in script]


@given(SEEDS, GAPS)
def test_every_event_is_late_by_no_more_than_the_lag(seed: int, gaps: list[float]) -> None:
    transport = LateTransport(streaming(events(gaps)), seed, lag=(0.1, 0.5))
    arrived = [time for time, _ in simulate(arrivals, transport, seed=seed)]
    lags = [came - sent for came, sent in zip(arrived, accumulate(gaps), strict=True)]
    assert all(0.1 - 1e-9 <= lag <= 0.5 + 1e-9 for lag in lags)


def test_a_lag_delays_events_without_slowing_their_rate() -> None:
    gaps = [0.005] * 2000
    arrived = simulate(arrivals, LateTransport(streaming(events(gaps)), lag=(0.5, 0.5)))
    assert arrived[-1][0] == pytest.approx(0.005 * 2000 + 0.5)


def test_the_lags_of_two_watches_are_independent() -> None:
    async def main() -> list[str]:
        transport = LateTransport(streaming(events([0.0] * 3 + [0.5] * 10)), seed=1, lag=(0.01, 2))
        heard: list[str] = []

        async def watch(name: str) -> None:
            async with transport.stream(HttpRequest("GET", f"/api/v1/{name}", WATCH)) as answer:
                async for line in answer.chunks:
                    heard.append(f"{name} {line.decode().strip()}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, "pods")
            tasks.start_soon(watch, "secrets")
        return heard

    heard = simulate(main)
    pods_first = heard.index('pods {"n":3}') < heard.index('secrets {"n":3}')
    assert any(
        (heard.index(f'pods {{"n":{n}}}') < heard.index(f'secrets {{"n":{n}}}')) is not pods_first
        for n in range(13)
    )


@given(SEEDS)
def test_the_lags_of_a_watch_depend_on_seed_and_path_alone(seed: int) -> None:
    async def main(others: int) -> list[tuple[float, bytes]]:
        transport = LateTransport(streaming(events([0.1] * 5)), seed)
        arrived: list[tuple[float, bytes]] = []
        async with anyio.create_task_group() as tasks:
            for number in range(others):
                tasks.start_soon(arrivals, transport, f"/api/v1/other-{number}")
            arrived += await arrivals(transport)
        return arrived

    assert simulate(main, 0, seed=seed) == simulate(main, 3, seed=seed + 1)


def test_another_seed_or_another_watch_has_other_lags() -> None:
    async def main(seed: int) -> list[list[float]]:
        transport = LateTransport(streaming(events([0.0] * 5)), seed)
        began = anyio.current_time()
        first = [time - began for time, _ in await arrivals(transport)]
        began = anyio.current_time()
        return [first, [time - began for time, _ in await arrivals(transport)]]

    (one, two), (three, _) = simulate(main, 1), simulate(main, 2)
    assert one != two
    assert one != three


async def test_requests_and_streams_other_than_watches_are_not_delayed() -> None:
    transport = LateTransport(streaming([(0, b"log line\n")]))
    began = anyio.current_time()
    assert (await transport.request(HttpRequest("GET", PODS))).status == 200
    async with transport.stream(HttpRequest("GET", "/api/v1/namespaces/a/pods/web/log")) as answer:
        assert [chunk async for chunk in answer.chunks] == [b"log line\n"]
    assert anyio.current_time() == began
    assert transport.server == "scripted"


async def test_a_refused_watch_is_refused_at_once() -> None:
    transport = LateTransport(streaming([(0, b"gone")], status=410))
    began = anyio.current_time()
    async with transport.stream(HttpRequest("GET", PODS, WATCH)) as answer:
        assert (answer.status, [chunk async for chunk in answer.chunks]) == (410, [b"gone"])
    assert anyio.current_time() == began


async def test_an_error_comes_after_the_events_before_it() -> None:
    transport = LateTransport(streaming(events([0, 0]), then=OutcomeUnknown("reset")))
    read: list[bytes] = []

    async def watch() -> None:
        async with transport.stream(HttpRequest("GET", PODS, WATCH)) as answer:
            async for line in answer.chunks:
                read.append(line)

    with pytest.raises(OutcomeUnknown, match="reset"):
        await watch()
    assert read == [b'{"n":0}\n', b'{"n":1}\n']


@pytest.mark.parametrize("error", [ValueError("mine"), Crash("GET /", carried_out=False)])
async def test_an_error_of_the_reader_is_not_wrapped_in_a_group(error: BaseException) -> None:
    server = streaming(events([0]), then="silence")

    async def watch() -> None:
        async with LateTransport(server).stream(HttpRequest("GET", PODS, WATCH)) as answer:
            await anext(aiter(answer.chunks))
            raise error

    with pytest.raises(type(error)) as caught:
        await watch()
    assert caught.value is error
    assert server.open_streams == 0


async def test_leaving_or_cancelling_a_watch_ends_it() -> None:
    server = streaming(events([0]), then="silence")
    transport = LateTransport(server)
    async with transport.stream(HttpRequest("GET", PODS, WATCH)) as answer:
        await anext(aiter(answer.chunks))
    assert server.open_streams == 0
    with anyio.move_on_after(60) as scope:
        await arrivals(transport)
    assert scope.cancelled_caught
    assert server.open_streams == 0
    await transport.aclose()
    assert server.closed


@pytest.mark.parametrize("lag", [(0, 1), (2, 1), (-1, 1), (1, float("inf")), (float("nan"), 1)])
def test_a_lag_that_could_be_zero_is_refused(lag: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="0 < least <= most"):
        LateTransport(streaming(), lag=lag)
