"""Events: written beside the runs, counted up, limited for each object, and of no consequence."""

import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import APIResource
from reconcile import Client, Context, Controller, Object, ObjectMeta, Result
from reconcile.client.manifests import manifest_of
from reconcile.controller.event_recorder import WAITING, Recorder
from reconcile.controller.event_series import BURST, COMBINED, REFILL_SECONDS, EventLedger, EventSubject
from reconcile.controller.run_output import PendingEvent
from reconcile.embedded import InProcessTransport, service_account
from reconcile.kinds import ClusterRole, ConfigMap, Namespace
from reconcile.testing import (
    Delay,
    FakeClient,
    Fault,
    FaultPlan,
    FaultyTransport,
    LateTransport,
    LoseReply,
    Refuse,
    SlowReply,
    When,
)
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world, simulated

NEW = APIResource("events.k8s.io", "v1", "Event", "events")
CORE = APIResource("", "v1", "Event", "events")
ABOUT = EventSubject("v1", "ConfigMap", "default", "c", "u")
FINE = PendingEvent("Normal", "Fine", "all is well")


async def written(client: Client, resource: APIResource = NEW) -> list[dict[str, Any]]:
    return [snapshot.to_dict() for snapshot in await client.raw.snapshots(resource, live=True)]


async def subject(client: FakeClient) -> ConfigMap:
    return await client.get(ConfigMap, "c", "default")


def told(client: FakeClient) -> Recorder:
    return Recorder(Client(client.transport, clock=client.clock), "toys", "here")


async def tell(recorder: Recorder, obj: Object, event: PendingEvent = FINE) -> None:
    recorder.record(obj, event)
    await recorder.flush()


def served(*, plan: FaultPlan = FaultPlan()) -> FakeClient:  # noqa: B008
    return FakeClient(ConfigMap(metadata=ObjectMeta("c", "default")), plan=plan)


@pytest.mark.parametrize("name", ["system:shop", "a" * 235 + "-b"])
async def test_an_event_is_written_about_an_object_of_whatever_name(name: str) -> None:
    client = FakeClient(ClusterRole(metadata=ObjectMeta(name)))
    await tell(told(client), await client.get(ClusterRole, name))
    (event,) = await written(client)
    assert event["regarding"]["name"] == name


@pytest.mark.rule("event-1")
async def test_an_event_records_the_object_the_action_and_the_reporter() -> None:
    client = served()
    recorder = told(client)
    await tell(recorder, await subject(client), PendingEvent("Warning", "Failed", "no room", "Scale"))
    (event,) = await written(client)
    regarding = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "default"}
    assert event["regarding"] == {**regarding, "uid": (await subject(client)).uid}
    assert (event["type"], event["reason"], event["note"], event["action"]) == (
        "Warning",
        "Failed",
        "no room",
        "Scale",
    )
    assert (event["reportingController"], event["reportingInstance"]) == ("toys", "here")
    assert "series" not in event
    (core,) = await written(client, CORE)
    assert (core["message"], core["involvedObject"]["name"]) == ("no room", "c")


@pytest.mark.rule("event-2")
async def test_repeated_events_are_counted_in_one() -> None:
    client = served()
    recorder = told(client)
    for _ in range(3):
        await tell(recorder, await subject(client))
    (event,) = await written(client)
    assert event["series"]["count"] == 3


@pytest.mark.rule("event-2")
@simulated
async def test_an_event_after_a_long_silence_starts_a_new_one() -> None:
    client = served()
    recorder = told(client)
    for pause in (0, 300, 361):
        await anyio.sleep(pause)
        await tell(recorder, await subject(client))
    assert sorted(event.get("series", {}).get("count", 1) for event in await written(client)) == [1, 2]


async def test_an_expired_event_is_recreated() -> None:
    client = served()
    recorder = told(client)
    await tell(recorder, await subject(client))
    (event,) = await written(client)
    client.request("DELETE", NEW.path("default", event["metadata"]["name"]), {})
    await tell(recorder, await subject(client))
    assert [event["series"]["count"] for event in await written(client)] == [2]


@pytest.mark.rule("event-2")
async def test_too_many_different_notes_with_one_reason_become_one_event() -> None:
    client = served()
    recorder = told(client)
    for number in range(30):
        recorder.record(await subject(client), PendingEvent("Normal", "Made", f"made pod {number}"))
    await recorder.flush()
    notes = {event["note"]: event for event in await written(client)}
    assert len(notes) == 11
    (combined,) = (note for note in notes if note.startswith(COMBINED))
    assert notes[combined]["series"]["count"] == 20
    assert combined.endswith("made pod 29")


@pytest.mark.rule("event-3")
@simulated
async def test_writes_about_one_object_are_limited_without_losing_the_count() -> None:
    client = FakeClient(*(ConfigMap(metadata=ObjectMeta(n, "default")) for n in ("c", "d")))
    recorder = told(client)
    other = await client.get(ConfigMap, "d", "default")
    this = await subject(client)
    for _ in range(100):
        await anyio.sleep(1)
        await tell(recorder, this)
    assert len(client.transport.writes) == BURST
    await tell(recorder, other)
    assert len(client.transport.writes) == BURST + 1
    await anyio.sleep(REFILL_SECONDS)
    await tell(recorder, this)
    counts = {e["regarding"]["name"]: e.get("series", {}).get("count") for e in await written(client)}
    assert counts == {"c": 101, "d": None}


@pytest.mark.rule("event-3")
@given(st.lists(st.floats(0, 400), min_size=1, max_size=80))
def test_no_period_has_more_writes_than_burst_and_refill_allow(gaps: list[float]) -> None:
    ledger, now, allowed = EventLedger(), 0.0, []
    for gap in gaps:
        now += gap
        if ledger.may_write(ABOUT, now):
            allowed.append(now)
    for first, start in enumerate(allowed):
        for last, end in enumerate(allowed[first:], first):
            assert last - first + 1 <= BURST + (end - start) / REFILL_SECONDS + 1e-6


@pytest.mark.rule("event-4")
@in_world(played)
async def test_a_run_neither_waits_for_an_event_nor_fails_with_it(world: World) -> None:
    runs: list[float] = []

    async def speak(ctx: Context[Toy]) -> Result:
        runs.append(anyio.current_time())
        ctx.event("Told", f"run {len(runs)}")
        return Result(requeue_after=1)

    stalled = Fault(When("create", "*/events", times=None), SlowReply(1000))
    world.transport = FaultyTransport(
        LateTransport(InProcessTransport(world.server), 0), FaultPlan((stalled,))
    )
    async with world.running(Controller(Toy, speak)):
        await world.make()
        await anyio.sleep(10)
    assert len(runs) >= 9
    assert {r.status for r in world.transport.requests if r.path.endswith("/events")} == {None}
    assert max(later - sooner for sooner, later in pairwise(runs)) < 1.1


@pytest.mark.rule("event-4")
@pytest.mark.parametrize("failure", [Refuse(403, "Forbidden"), Refuse(500, "InternalError"), LoseReply()])
async def test_an_event_that_cannot_be_written_is_logged_and_the_next_one_is_tried(
    failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = served(plan=FaultPlan((Fault(When("create", "*/events"), failure),)))
    recorder = told(client)
    with caplog.at_level(logging.WARNING, logger="reconcile.events"):
        await tell(recorder, await subject(client))
    assert [vars(record)["event"] for record in caplog.records] == ["an event could not be written"]
    await tell(recorder, await subject(client))
    assert [event["series"]["count"] for event in await written(client)] == [2]


@pytest.mark.rule("event-4")
async def test_events_beyond_the_queue_bound_are_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    client = served()
    recorder = told(client)
    this = await subject(client)
    with caplog.at_level(logging.WARNING, logger="reconcile.events"):
        for number in range(WAITING + 5):
            recorder.record(this.with_metadata(uid=str(number)), FINE)
    assert [record.__dict__["dropped"] for record in caplog.records] == [1, 2, 4]


async def test_a_server_without_events_k8s_io_gets_events_of_the_core_group() -> None:
    missing = Fault(When("create", "/apis/events.k8s.io/*", times=None), Refuse(404, "NotFound"))
    client = served(plan=FaultPlan((missing,)))
    recorder = told(client)
    for _ in range(2):
        await tell(recorder, await subject(client))
    (event,) = await written(client, CORE)
    assert (event["message"], event["count"], event["reportingComponent"]) == ("all is well", 2, "toys")
    assert event["firstTimestamp"] <= event["lastTimestamp"]
    assert [str(request) for request in client.transport.writes][1] == (
        "CREATE /api/v1/namespaces/default/events"
    )


async def test_events_of_an_object_without_namespace_are_in_default() -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("c", "default")))
    recorder = told(client)
    await tell(recorder, await client.get(Namespace, "default"))
    (event,) = await written(client)
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["regarding"]


@in_world(played)
async def test_the_last_events_of_a_controller_are_written_before_it_ends(world: World) -> None:
    async def speak(ctx: Context[Toy]) -> None:
        ctx.event("Told", "once")

    late = LateTransport(InProcessTransport(world.server), 0)
    world.transport = FaultyTransport(late, FaultPlan((Fault(When("create", "*/events"), Delay(1.5)),)))
    async with world.running(Controller(Toy, speak)):
        await world.make()
        await anyio.sleep(1)
        assert await written(world.client) == []
    assert [event["note"] for event in await written(world.client)] == ["once"]


@pytest.mark.rule("event-1")
async def test_the_role_on_the_page_is_enough_to_create_and_update_events() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "events.md"
    role = manifest_of(page.read_text().split("```yaml\n")[1].split("```")[0])
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "events"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "events"},
        "subjects": [{"kind": "ServiceAccount", "name": "toys", "namespace": "default"}],
    }
    config = ConfigMap(metadata=ObjectMeta("c", "default"))
    client = FakeClient(config, role, binding, user=service_account("default", "toys"))
    recorder = told(client)
    for _ in range(2):
        await tell(recorder, config.with_metadata(uid="u"))
    assert [request.status for request in client.transport.writes] == [201, 200]
