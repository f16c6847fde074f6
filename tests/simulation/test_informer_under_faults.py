"""The kit as a whole: a real informer, late and spoiled watches, the embedded server, virtual time."""

import anyio
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from informers.informer import Informer
from informers.resource import APIResource
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.testing.faults import (
    Cut,
    Drop,
    EndEarly,
    Expire,
    Fault,
    FaultPlan,
    LoseReply,
    Refuse,
    Stall,
    When,
)
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.late_watches import LateTransport
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import simulate

CONFIG_MAPS = APIResource("", "v1", "ConfigMap", "configmaps")
COLLECTION = CONFIG_MAPS.path("default")

AFTER = st.integers(0, 6)
READ_FAULTS = st.one_of(
    st.builds(Cut, AFTER, mid_line=st.booleans()),
    st.builds(EndEarly, AFTER),
    st.builds(Stall, AFTER, seconds=st.floats(0, 900)),
    st.builds(Expire, AFTER),
    st.sampled_from([Drop(), LoseReply(), Refuse(500), Refuse(429, text="later", retry_after=5)]),
)
WHENS = st.builds(
    When, verb=st.sampled_from(["list", "watch"]), nth=st.integers(1, 4), times=st.integers(1, 2)
)
PLANS = st.builds(FaultPlan, st.lists(st.builds(Fault, WHENS, READ_FAULTS), max_size=4))
CHANGES = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 30)), min_size=1, max_size=20)
"""Which object is made, or deleted if it is there, and after how many seconds."""


async def toggle(transport: InProcessTransport, name: str) -> None:
    body = msgspec.json.encode({"metadata": {"name": name}})
    made = await transport.request("POST", COLLECTION, {}, {"content-type": "application/json"}, body)
    if made.status == 409:
        made = await transport.request("DELETE", f"{COLLECTION}/{name}")
    assert made.status in (200, 201), made.body


async def versions_on_server(transport: InProcessTransport) -> dict[str, int]:
    answer = await transport.request("GET", COLLECTION)
    items = msgspec.json.decode(answer.body)["items"]
    return {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in items}


async def follow(seed: int, plan: FaultPlan, changes: list[tuple[int, float]]) -> list[str]:
    """What went wrong on the way; at the end the informer must hold what the server holds."""
    server = InProcessTransport(ApiServer(clock=VirtualClock(seed)))
    faulty = FaultyTransport(LateTransport(server, seed), plan)
    informer = Informer(faulty, CONFIG_MAPS, namespace="default", clock=VirtualClock(seed + 1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informer.run)
        for number, pause in changes:
            await anyio.sleep(pause)
            await toggle(server, f"map-{number}")
        await anyio.sleep(3 * 3600)
        held = {snapshot.key.name: snapshot.version for snapshot in informer.store}
        assert held == await versions_on_server(server)
        tasks.cancel_scope.cancel()
    return faulty.applied


@given(st.integers(0, 2**16), PLANS, CHANGES)
def test_an_informer_ends_with_what_the_server_has_whatever_befalls_its_reads(
    seed: int, plan: FaultPlan, changes: list[tuple[int, float]]
) -> None:
    simulate(follow, seed, plan, changes, seed=seed, limit_seconds=24 * 3600)


def test_the_same_seed_and_plan_are_the_same_run() -> None:
    faults = [Fault(When("watch", nth=1), Cut(3)), Fault(When("watch", nth=2, times=3), Expire(1))]
    changes = [(number % 4, 1.5) for number in range(12)]
    one, two = (simulate(follow, 7, FaultPlan(faults), changes, seed=7, limit_seconds=1e5) for _ in range(2))
    assert one == two
    assert len(one) >= 2
