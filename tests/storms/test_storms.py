"""Keys that keep waking themselves are found, named and slowed; busy ones are left alone."""

import os
from typing import Annotated, Any

import anyio
import pytest
from attrs import frozen
from prometheus_client import CollectorRegistry

from informers import Key
from reconcile import (
    Cause,
    Client,
    Condition,
    Context,
    Controller,
    Intent,
    Object,
    ObjectMeta,
    Result,
    Storms,
    kind_of,
    resource,
)
from reconcile.controller.context import output_of
from reconcile.embedded import InProcessTransport
from reconcile.errors import StaleVersion, TerminalError
from reconcile.kinds import ConfigMap
from reconcile.models import Schema, definition_of, unstructured_kind
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world
from tests.manager.healthy_world import Healthy, alarms
from tests.storms.storms_world import Case, guard_of, play, until

CONFIG = kind_of(ConfigMap).resource
EVENTS = kind_of(unstructured_kind("events.k8s.io/v1", "Event", plural="events")).resource
CHILD = Key("default", "child")

STORMS, HEALTHY, CHILDREN = 200, 200, 500
IN_FULL = bool(os.environ.get("STORMS_IN_FULL"))
STORMS_RUN, HEALTHY_RUN, CHILDREN_MADE = (STORMS, HEALTHY, CHILDREN) if IN_FULL else (12, 4, 60)


@pytest.mark.rule("storm-found", "storm-slowed", "storm-recovers")
def test_storms_are_detected_reported_slowed_and_released(capsys: pytest.CaptureFixture[str]) -> None:
    found = [play(Case.drawn(seed)) for seed in range(STORMS_RUN)]
    failed = [one for one in found if not one.holds]
    assert len(failed) <= len(found) // 20, failed
    with capsys.disabled():
        print(f" [{STORMS_RUN} seeds run, {STORMS} in full]", end="")


@pytest.mark.rule("storm-healthy")
def test_busy_controllers_are_not_storms(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(HEALTHY_RUN):
        rollout, found = alarms(Healthy.drawn(seed, CHILDREN_MADE))
        assert rollout.runs > 10
        assert found == [], f"seed {seed}"
    with capsys.disabled():
        print(f" [{HEALTHY_RUN} seeds run, {HEALTHY} in full with {CHILDREN} children]", end="")


# --- what people see ----------------------------------------------------------------------------------------


async def stamp(ctx: Context[Toy]) -> None:
    """The classic: the time of the run in the desired state."""
    now = ctx.clock.now().isoformat()
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": now, "fixed": "1"}))


async def told(world: World, reason: str) -> list[dict[str, Any]]:
    """The Events of that reason."""
    events = [one.to_dict() for one in await world.client.raw.snapshots(EVENTS)]
    return [event for event in events if event["reason"] == reason]


@pytest.mark.rule("storm-told")
@in_world(played)
async def test_a_storm_is_reported_once_by_event_metric_log_and_state(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.running(
        Controller(Toy, stamp, owns=[ConfigMap]), metrics=CollectorRegistry()
    ) as manager:
        await world.make()
        assert await until(lambda: guard_of(manager).storming, 60)
        await anyio.sleep(700)
        storm = manager.state()["controllers"]["toy"]["storms"]["default/a"]
        assert storm["paths"] == [".data.x"]
        assert storm["trigger"] == "ConfigMap default/child"
        assert storm["manager"] == "toys.example.com/toy"
        assert 180 <= storm["interval"] <= 300
        assert manager._metrics is not None
        text = manager._metrics.text()[0].decode()
        assert 'reconcile_storms_total{controller="toy"} 1.0' in text
        assert 'reconcile_storms_active{controller="toy"} 1.0' in text
        events = await told(world, "ReconcileStorm")
    assert len(events) == 1
    assert events[0]["type"] == "Warning"
    assert ".data.x of ConfigMap default/child" in events[0]["note"]
    assert len([one for one in caplog.records if "reconcile storm" in one.getMessage()]) == 1


@pytest.mark.rule("storm-told")
@in_world(played)
async def test_causes_of_a_repeatedly_running_key_have_paths_and_writer(world: World) -> None:
    known: list[Cause] = []

    async def keep(ctx: Context[Toy]) -> None:
        known.extend(ctx.causes)
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": "mine"}))

    stranger = Client(InProcessTransport(world.server), field_manager="stranger", clock=world.clock)
    async with world.running(Controller(Toy, keep, owns=[ConfigMap])):
        await world.make()
        for _ in range(6):
            await anyio.sleep(2)
            await stranger.raw.patch(CONFIG, CHILD, {"data": {"x": "theirs"}}, guard={})
        await anyio.sleep(2)
    foreign = [cause for cause in known if cause.key == CHILD and not cause.echo]
    assert foreign[0].manager == ""
    assert (foreign[-1].manager, foreign[-1].paths) == ("stranger", (".data.x",))
    assert "by stranger: .data.x" in str(foreign[-1])


def _status_writes(world: World) -> list[str]:
    return [one.path for one in world.transport.writes if one.path.endswith("/toys/a/status")]


@pytest.mark.rule("storm-condition")
@pytest.mark.parametrize("shown", [True, False])
@in_world(played)
async def test_a_storm_is_shown_in_a_condition_only_if_configured(world: World, shown: bool) -> None:
    controller = Controller(Toy, stamp, owns=[ConfigMap], storms=Storms(condition=shown))
    async with world.running(controller) as manager:
        await world.make()
        assert await until(lambda: guard_of(manager).storming, 60)
        await anyio.sleep(1000)
        toy = await world.client.raw.snapshot(kind_of(Toy).resource, Key("default", "a"))
        assert toy is not None
        conditions = toy.to_dict().get("status", {}).get("conditions", [])
        assert [one["type"] for one in conditions] == (["ReconcileStorm"] if shown else [])
        assert len(_status_writes(world)) == int(shown)
        await world.client.raw.merge(await world.client.get(Toy, "a", "default"), {"spec": {"size": 9}})
        await anyio.sleep(0.5)
        assert (len(_status_writes(world)) > 1) is shown
        managers = await world.client.raw.managed_fields(kind_of(Toy).resource, Key("default", "a"))
        assert any(one["manager"] == "toys.example.com/toy-storms" for one in managers) is shown


@pytest.mark.rule("storm-recovers")
@in_world(played)
async def test_a_change_of_the_spec_is_never_delayed(world: World) -> None:
    sizes: list[int] = []

    async def stamped(ctx: Context[Toy]) -> None:
        sizes.append(ctx.object.spec.size)
        await stamp(ctx)

    async with world.running(Controller(Toy, stamped, owns=[ConfigMap])) as manager:
        await world.make()
        assert await until(lambda: guard_of(manager).storming, 60)
        await anyio.sleep(400)
        await world.client.raw.merge(await world.client.get(Toy, "a", "default"), {"spec": {"size": 9}})
        await anyio.sleep(1)
        assert sizes[-1] == 9


@pytest.mark.rule("storm-recovers")
@in_world(played)
async def test_an_object_in_a_storm_can_be_deleted_at_once(world: World) -> None:
    async def clean(ctx: Context[Toy]) -> None:
        return

    async with world.running(Controller(Toy, stamp, cleanup=clean, owns=[ConfigMap])) as manager:
        toy = await world.make()
        assert await until(lambda: guard_of(manager).storming, 60)
        await anyio.sleep(400)
        await world.client.delete(toy)
        await anyio.sleep(2)
        assert await world.client.find(Toy, "a", "default") is None
        assert not guard_of(manager).storming
        assert guard_of(manager).meter.keys == {}


@in_world(played)
async def test_without_detection_a_loop_continues(world: World) -> None:
    controller = Controller(Toy, stamp, owns=[ConfigMap], storms=Storms(detect=False))
    async with world.running(controller) as manager:
        await world.make()
        await anyio.sleep(60)
        assert manager.status().controllers[0].runs > 200


def test_the_longest_interval_is_five_minutes_at_most() -> None:
    with pytest.raises(ValueError, match="longest"):
        Storms(longest=301)


# --- runs that wait for their own status ------------------------------------------------------------------


async def make_child(ctx: Context[Toy]) -> None:
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": "1"}))


async def stepwise(ctx: Context[Toy]) -> None:
    """Writes its status, and makes a child in the next run."""
    if ctx.object.status.size == 0:
        ctx.status(size=1)
        return
    await make_child(ctx)


@pytest.mark.rule("storm-waits-for-itself")
@in_world(played)
async def test_a_run_that_waited_for_its_own_status_is_reported_once_with_the_remedy(world: World) -> None:
    controller = Controller(Toy, stepwise, owns=[ConfigMap], writes=[Toy])
    async with world.running(controller) as manager:
        await world.make("a")
        await world.make("b")
        await anyio.sleep(10)
        for name in "ab":
            manager.trigger(controller, f"default/{name}")
        await anyio.sleep(10)
        events = await told(world, "WaitsForItself")
    assert len(events) == 1
    assert "Result(requeue=True)" in events[0]["note"]


@pytest.mark.rule("storm-waits-for-itself")
@pytest.mark.parametrize("again", [True, False])
@in_world(played)
async def test_a_run_that_requeues_or_has_nothing_more_to_do_is_not_reported(
    world: World, again: bool
) -> None:
    async def fine(ctx: Context[Toy]) -> Result | None:
        ctx.status(size=1)
        if again and ctx.object.status.size == 0:
            return Result(requeue=True)
        if again:
            await make_child(ctx)
        return None

    controller = Controller(Toy, fine, owns=[ConfigMap])
    async with world.running(controller) as manager:
        await world.make()
        await anyio.sleep(10)
        manager.trigger(controller, "default/a")
        await anyio.sleep(10)
        assert await told(world, "WaitsForItself") == []


@pytest.mark.rule("storm-waits-for-itself")
@in_world(played)
async def test_a_run_started_by_a_timer_is_not_reported(world: World) -> None:
    async with world.running(Controller(Toy, stepwise, owns=[ConfigMap], every=5)):
        await world.make("a")
        await anyio.sleep(20)
        assert await told(world, "WaitsForItself") == []


@pytest.mark.rule("storm-waits-for-itself")
@pytest.mark.parametrize("how", ["fails", "terminal", "late", "stale"])
@in_world(played)
async def test_a_run_that_fails_after_writing_a_condition_waits_for_its_retry_and_not_for_itself(
    world: World, how: str
) -> None:
    attempts = 0

    async def ready_on_retry(ctx: Context[Toy]) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            ctx.condition("Ready", False, reason="NotYet")
            if how == "late":
                await anyio.sleep(60)
            if how == "terminal":
                raise TerminalError("the disk is full")
            if how == "stale":
                await output_of(ctx).write_status()
                raise StaleVersion(409, "Conflict", "the object has been modified")
            raise OSError("no answer")
        ctx.condition("Ready", True, reason="Up")
        await make_child(ctx)

    controller = Controller(Toy, ready_on_retry, owns=[ConfigMap], timeout=5)
    async with world.running(controller) as manager:
        await world.make("a")
        await anyio.sleep(20)
        if how == "terminal":
            manager.trigger(controller, "default/a")
            await anyio.sleep(5)
        assert attempts >= 2
        assert await world.client.find(ConfigMap, "child", "default") is not None
        assert await told(world, "WaitsForItself") == []


@pytest.mark.rule("storm-waits-for-itself")
@in_world(played)
async def test_a_run_that_waits_for_itself_is_detected_even_after_a_failed_one(world: World) -> None:
    attempts = 0

    async def fail_first(ctx: Context[Toy]) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            ctx.condition("Ready", False, reason="NotYet")
            raise OSError("no answer")
        await stepwise(ctx)

    controller = Controller(Toy, fail_first, owns=[ConfigMap])
    async with world.running(controller) as manager:
        await world.make("a")
        await anyio.sleep(10)
        manager.trigger(controller, "default/a")
        await anyio.sleep(10)
        assert len(await told(world, "WaitsForItself")) == 1


@frozen
class LampStatus:
    conditions: Annotated[tuple[Condition, ...], Schema(list_type="atomic")] = ()


@resource("lamps.example.com/v1")
class Lamp(Object):
    """Its definition does not say that conditions are keyed by type."""

    status: LampStatus = LampStatus()


@pytest.mark.rule("storm-condition")
@in_world(played)
async def test_the_condition_of_a_storm_spares_the_others_in_an_atomic_list(world: World) -> None:
    async def flicker(ctx: Context[Lamp]) -> None:
        if not ctx.object.status.conditions:
            ctx.condition("Ready", True, reason="Once")
        labels = {"n": str(int(ctx.object.metadata.labels.get("n", "0")) + 1)}
        await ctx.client.raw.merge(ctx.object, {"metadata": {"labels": labels}}, guard={})

    await world.client.apply(definition_of(Lamp))
    controller = Controller(Lamp, flicker, writes=[Lamp], storms=Storms(condition=True))
    async with world.running(controller) as manager:
        await world.client.create(Lamp(metadata=ObjectMeta("a", "default")))
        assert await until(lambda: guard_of(manager).storming, 60)
        await anyio.sleep(5)
        lamp = await world.client.get(Lamp, "a", "default")
    assert [one.type for one in lamp.status.conditions] == ["Ready", "ReconcileStorm"]
