"""Keys that keep waking themselves are found, named and slowed; busy ones are left alone."""

import os
from collections import deque
from typing import Any

import anyio
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from informers import Key, Snapshot
from reconcile import (
    Cause,
    Client,
    Context,
    Controller,
    Intent,
    ObjectMeta,
    Result,
    Storms,
    kind_of,
    unstructured,
)
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.storms.changes import Spot, differences
from reconcile.storms.detection import Hit, Origin, find_loop
from reconcile.storms.interval import Stretch
from reconcile.storms.managers import writer_of
from reconcile.storms.meter import origin_of
from tests.reconcile.healthy_world import Healthy, alarms
from tests.reconcile.storms_world import Case, guard_of, play, until
from tests.reconcile.test_manager import Toy, World, played

CONFIG = kind_of(ConfigMap).resource
EVENTS = kind_of(unstructured("events.k8s.io/v1", "Event", plural="events")).resource
CHILD = Key("default", "child")
SPOT = Spot(CONFIG, CHILD, ".data.x")

STORMS, HEALTHY, CHILDREN = 200, 200, 500
IN_FULL = bool(os.environ.get("STORMS_IN_FULL"))
STORMS_RUN, HEALTHY_RUN, CHILDREN_MADE = (STORMS, HEALTHY, CHILDREN) if IN_FULL else (12, 4, 60)


@pytest.mark.rule("storm-found")
@pytest.mark.rule("storm-slowed")
@pytest.mark.rule("storm-recovers")
def test_storms_are_caught_named_slowed_and_let_go(capsys: pytest.CaptureFixture[str]) -> None:
    found = [play(Case.drawn(seed)) for seed in range(STORMS_RUN)]
    failed = [one for one in found if not one.holds]
    assert len(failed) <= len(found) // 20, failed
    with capsys.disabled():
        print(f" [{STORMS_RUN} seeds run, {STORMS} in full]", end="")


@pytest.mark.rule("storm-healthy")
def test_busy_controllers_are_no_storms(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(HEALTHY_RUN):
        rollout, found = alarms(Healthy.drawn(seed, CHILDREN_MADE))
        assert rollout.runs > 10
        assert found == [], f"seed {seed}"
    with capsys.disabled():
        print(f" [{HEALTHY_RUN} seeds run, {HEALTHY} in full with {CHILDREN} children]", end="")


# --- what a loop is ---------------------------------------------------------------------------------------


def hits(origin: Origin, values: str, every: float = 1.0, made: bool = False) -> deque[Hit]:
    befores = ["", *values]
    return deque(
        Hit(number * every, origin, hash(befores[number]), hash(value), made)
        for number, value in enumerate(values)
    )


@pytest.mark.rule("storm-found")
@pytest.mark.parametrize(
    ("trail", "kind"),
    [
        (hits("echo", "abcdefgh"), "rewritten"),
        (hits("own", "abcdefghijkl"), "rewritten"),
        (hits("reverted", "aaaaaa"), "fought"),
        (hits("reverted", "abcabc"), "fought"),
        (hits("timed", "abababab"), "flipping"),
        (hits("other", "abababab"), "flipping"),
        (hits("echo", "abcdefg"), None),
        (hits("echo", "abcdefgh", made=True), None),
        (hits("reverted", "abcdefgh"), None),
        (hits("timed", "abcdefghijklmnop"), None),
        (hits("other", "abcdefghijklmnop"), None),
        (hits("retried", "abababababab"), None),
        (hits("timed", "abababab", every=200.0), None),
    ],
)
def test_a_loop_is_writes_that_wake_themselves_are_undone_or_go_round(
    trail: deque[Hit], kind: str | None
) -> None:
    loop = find_loop({SPOT: trail}, trail[-1].at)
    assert (None if loop is None else loop.kind) == kind


@pytest.mark.rule("storm-found")
def test_making_objects_and_deleting_them_again_is_a_loop_if_its_own_writes_wake_it() -> None:
    def trails(origin: Origin, count: int) -> dict[Spot, deque[Hit]]:
        turn = deque([Hit(1.0, origin, 0, 1, True), Hit(2.0, origin, 1, 0, True)])
        return {Spot(CONFIG, Key("default", f"v{number}"), ""): turn for number in range(count)}

    loop = find_loop(trails("own", 6), 3.0)
    assert loop is not None
    assert (loop.kind, loop.resource) == ("churning", CONFIG)
    assert loop.has(Spot(CONFIG, Key("default", "v99"), ""))
    assert not loop.has(Spot(CONFIG, Key("default", "v99"), ".data"))
    assert find_loop(trails("own", 5), 3.0) is None
    assert find_loop(trails("other", 16), 3.0) is None


@pytest.mark.rule("storm-healthy")
def test_a_status_that_flips_with_other_objects_is_a_report() -> None:
    toy = (kind_of(Toy).resource, Key("default", "a"))
    trails = {Spot(*toy, ".status.size"): hits("other", "ababababab")}
    assert find_loop(trails, 10.0, toy) is None
    assert find_loop({SPOT: hits("other", "ababababab")}, 10.0, toy) is not None


@pytest.mark.rule("storm-found")
def test_all_fields_of_a_loop_are_named() -> None:
    trails = {
        SPOT: hits("echo", "abcdefghij"),
        SPOT._replace(path=".data.y"): hits("echo", "abcdefgh"),
        SPOT._replace(path=".data.once"): hits("echo", "a"),
    }
    loop = find_loop(trails, 10.0)
    assert loop is not None
    assert loop.paths == (".data.x", ".data.y")


@pytest.mark.parametrize(
    ("causes", "origin"),
    [
        ([Cause("updated", CONFIG, CHILD, 5, echo=True)], "echo"),
        ([Cause("updated", CONFIG, CHILD, 5, echo=True), Cause("updated", CONFIG, CHILD, 6)], "reverted"),
        ([Cause("updated", CONFIG, Key("default", "other"), 5)], "other"),
        ([Cause("updated", CONFIG, Key("default", "other"), 5, echo=True)], "own"),
        ([Cause("scheduled")], "timed"),
        ([Cause("retried")], "retried"),
        ([], "timed"),
    ],
)
def test_where_a_write_comes_from_is_told_from_the_field_that_it_changed(
    causes: list[Cause], origin: Origin
) -> None:
    assert origin_of(causes, SPOT) == origin


# --- paths and writers ------------------------------------------------------------------------------------


def snapshot(version: int, **more: Any) -> Snapshot:
    metadata = {"name": "child", "namespace": "default", "uid": "u", "resourceVersion": str(version)}
    return Snapshot.from_json(msgspec.json.encode({"kind": "ConfigMap", "metadata": metadata, **more}))


def test_differences_are_paths_and_leave_out_what_a_server_keeps() -> None:
    old = snapshot(1, spec={"a": [{"b": 1}, {"b": 2}], "gone": 1})
    new = snapshot(2, spec={"a": [{"b": 1}, {"b": 3}], "new": [1]})
    assert [path for path, _, _ in differences(old, new)] == [".spec.a[1].b", ".spec.gone", ".spec.new"]


def test_the_last_other_writer_of_a_field_is_found_in_managed_fields() -> None:
    def entry(manager: str, time: str, **fields: Any) -> dict[str, Any]:
        return {"manager": manager, "time": time, "fieldsV1": fields}

    fields = [
        entry("me", "2026-01-03T00:00:00Z", **{"f:data": {"f:x": {}}}),
        entry("old", "2026-01-01T00:00:00Z", **{"f:data": {"f:x": {}}}),
        entry("new", "2026-01-02T00:00:00Z", **{"f:data": {"f:x": {}}}),
        entry("elsewhere", "2026-01-04T00:00:00Z", **{"f:data": {"f:y": {}}}),
    ]
    assert writer_of(fields, [".data.x"], but="me") == "new"
    assert writer_of(fields, [".data.z"], but="me") == ""
    assert writer_of([], [".data.x"]) == ""


# --- the interval -----------------------------------------------------------------------------------------


@pytest.mark.rule("storm-slowed")
def test_the_interval_grows_to_five_minutes_while_the_loop_goes_on() -> None:
    stretch, now, seen = Stretch(300.0), 0.0, []
    stretch.begin(now)
    for _ in range(6):
        seen.append(stretch.seconds)
        assert stretch.wait(now).seconds > 0
        now = stretch.held_until
        assert stretch.wait(now).seconds == 0
        stretch.ran(True, now)
        assert stretch.wait(now).seconds == 0  # one more, which shows whether it goes on
        stretch.ran(True, now)
    assert seen == [20.0, 60.0, 180.0, 300.0, 300.0, 300.0]


@pytest.mark.rule("storm-recovers")
def test_a_run_without_the_writes_of_the_loop_springs_back_and_ends_it_after_a_minute() -> None:
    stretch = Stretch(300.0)
    stretch.begin(0.0)
    stretch.ran(True, 20.0)
    stretch.ran(False, 20.1)
    assert stretch.wait(20.2).seconds == 0
    assert not stretch.over(30.0)
    assert stretch.over(81.0)


@pytest.mark.rule("storm-recovers")
def test_a_loop_that_comes_back_within_that_minute_is_the_same_one() -> None:
    stretch = Stretch(300.0)
    stretch.begin(0.0)
    stretch.ran(True, 20.0)
    stretch.ran(False, 20.1)
    stretch.ran(True, 21.0)
    assert not stretch.over(500.0)
    assert stretch.wait(21.0).seconds == pytest.approx(59.0)


# --- what people see ----------------------------------------------------------------------------------------


async def stamp(ctx: Context[Toy]) -> None:
    """The classic: the time of the run in what is wanted."""
    now = ctx.clock.now().isoformat()
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": now, "fixed": "1"}))


async def the_events(world: World) -> list[dict[str, Any]]:
    return [one.to_dict() for one in await world.client.snapshots(EVENTS)]


@pytest.mark.rule("storm-told")
def test_a_storm_is_told_once_by_event_metric_log_and_state(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        async with world.running(
            Controller(Toy, stamp, owns=[ConfigMap]), metrics=CollectorRegistry()
        ) as manager:
            await world.make()
            assert await until(lambda: guard_of(manager).storming, 60)
            await anyio.sleep(700)
            storm = manager.state()["controllers"]["toy"]["storms"]["default/a"]
            assert storm["paths"] == [".data.x"]
            assert storm["trigger"] == "ConfigMap default/child"
            assert storm["manager"] == "toy"
            assert 180 <= storm["interval"] <= 300
            assert manager._metrics is not None
            text = manager._metrics.text()[0].decode()
            assert 'reconcile_storms_total{controller="toy"} 1.0' in text
            assert 'reconcile_storms_active{controller="toy"} 1.0' in text
            told = [one for one in await the_events(world) if one["reason"] == "ReconcileStorm"]
        assert len(told) == 1
        assert told[0]["type"] == "Warning"
        assert ".data.x of ConfigMap default/child" in told[0]["note"]

    played(scenario)
    assert len([one for one in caplog.records if "reconcile storm" in one.getMessage()]) == 1


@pytest.mark.rule("storm-told")
def test_a_key_that_keeps_running_knows_paths_and_writer_of_its_causes() -> None:
    known: list[Cause] = []

    async def keep(ctx: Context[Toy]) -> None:
        known.extend(ctx.causes)
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": "mine"}))

    async def scenario(world: World) -> None:
        stranger = Client(InProcessTransport(world.server), field_manager="stranger", clock=world.clock)
        async with world.running(Controller(Toy, keep, owns=[ConfigMap])):
            await world.make()
            for _ in range(6):
                await anyio.sleep(2)
                await stranger.patch(CONFIG, CHILD, {"data": {"x": "theirs"}}, guard={})
            await anyio.sleep(2)
        foreign = [cause for cause in known if cause.key == CHILD and not cause.echo]
        assert foreign[0].manager == ""
        assert (foreign[-1].manager, foreign[-1].paths) == ("stranger", (".data.x",))
        assert "by stranger: .data.x" in str(foreign[-1])

    played(scenario)


def _status_writes(world: World) -> list[str]:
    return [one.path for one in world.transport.writes if one.path.endswith("/toys/a/status")]


@pytest.mark.rule("storm-condition")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_condition_says_so_only_where_the_author_wants_it(wanted: bool) -> None:
    async def scenario(world: World) -> None:
        controller = Controller(Toy, stamp, owns=[ConfigMap], storms=Storms(condition=wanted))
        async with world.running(controller) as manager:
            await world.make()
            assert await until(lambda: guard_of(manager).storming, 60)
            await anyio.sleep(1000)
            toy = await world.client.snapshot(kind_of(Toy).resource, Key("default", "a"))
            assert toy is not None
            conditions = toy.to_dict().get("status", {}).get("conditions", [])
            assert [one["type"] for one in conditions] == (["ReconcileStorm"] if wanted else [])
            assert len(_status_writes(world)) == int(wanted)
            await world.client.merge(await world.client.get(Toy, "a", "default"), {"spec": {"size": 9}})
            await anyio.sleep(0.5)
            assert (len(_status_writes(world)) > 1) is wanted
            managers = await world.client.managed_fields(kind_of(Toy).resource, Key("default", "a"))
            assert any(one["manager"] == "toy-storms" for one in managers) is wanted

    played(scenario)


@pytest.mark.rule("storm-recovers")
def test_a_change_of_the_spec_is_never_held_back() -> None:
    sizes: list[int] = []

    async def stamped(ctx: Context[Toy]) -> None:
        sizes.append(ctx.object.spec.size)
        await stamp(ctx)

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, stamped, owns=[ConfigMap])) as manager:
            await world.make()
            assert await until(lambda: guard_of(manager).storming, 60)
            await anyio.sleep(400)
            await world.client.merge(await world.client.get(Toy, "a", "default"), {"spec": {"size": 9}})
            await anyio.sleep(1)
            assert sizes[-1] == 9

    played(scenario)


@pytest.mark.rule("storm-recovers")
def test_an_object_in_a_storm_can_be_deleted_at_once() -> None:
    async def clean(ctx: Context[Toy]) -> None:
        return

    async def scenario(world: World) -> None:
        controller = Controller(Toy, stamp, cleanup=clean, owns=[ConfigMap])
        async with world.running(controller) as manager:
            toy = await world.make()
            assert await until(lambda: guard_of(manager).storming, 60)
            await anyio.sleep(400)
            await world.client.delete(toy)
            await anyio.sleep(2)
            assert await world.client.find(Toy, "a", "default") is None
            assert not guard_of(manager).storming
            assert guard_of(manager).meter.keys == {}

    played(scenario)


def test_without_detection_a_loop_goes_on() -> None:
    async def scenario(world: World) -> None:
        controller = Controller(Toy, stamp, owns=[ConfigMap], storms=Storms(detect=False))
        async with world.running(controller) as manager:
            await world.make()
            await anyio.sleep(60)
            assert manager.status().controllers[0].runs > 200

    played(scenario)


def test_the_longest_interval_is_five_minutes_at_most() -> None:
    with pytest.raises(ValueError, match="longest"):
        Storms(longest=301)


# --- runs that wait for their own status ------------------------------------------------------------------


@pytest.mark.rule("storm-waits-for-itself")
def test_a_run_that_waited_for_its_own_status_is_reported_once_with_the_remedy() -> None:
    async def stepwise(ctx: Context[Toy]) -> None:
        if ctx.object.status.size == 0:
            ctx.status(size=1)
            return
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": "1"}))

    async def scenario(world: World) -> None:
        controller = Controller(Toy, stepwise, owns=[ConfigMap], writes=[Toy])
        async with world.running(controller):
            await world.make("a")
            await world.make("b")
            await anyio.sleep(10)
            for name in "ab":
                controller.trigger(f"default/{name}")
            await anyio.sleep(10)
            told = [one for one in await the_events(world) if one["reason"] == "WaitsForItself"]
        assert len(told) == 1
        assert "Result(again=True)" in told[0]["note"]

    played(scenario)


@pytest.mark.rule("storm-waits-for-itself")
@pytest.mark.parametrize("again", [True, False])
def test_a_run_that_says_so_or_has_nothing_more_to_do_is_not_reported(again: bool) -> None:
    async def fine(ctx: Context[Toy]) -> Result | None:
        ctx.status(size=1)
        if again and ctx.object.status.size == 0:
            return Result(again=True)
        if again:
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": "1"}))
        return None

    async def scenario(world: World) -> None:
        controller = Controller(Toy, fine, owns=[ConfigMap])
        async with world.running(controller):
            await world.make()
            await anyio.sleep(10)
            controller.trigger("default/a")
            await anyio.sleep(10)
            assert [one for one in await the_events(world) if one["reason"] == "WaitsForItself"] == []

    played(scenario)


@pytest.mark.rule("storm-waits-for-itself")
def test_a_run_that_a_timer_had_look_at_the_world_is_not_reported() -> None:
    async def poll(ctx: Context[Toy]) -> None:
        if ctx.object.status.size == 0:
            ctx.status(size=1)
            return
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": "1"}))

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, poll, owns=[ConfigMap], every=5)):
            await world.make("a")
            await anyio.sleep(20)
            assert [one for one in await the_events(world) if one["reason"] == "WaitsForItself"] == []

    played(scenario)
