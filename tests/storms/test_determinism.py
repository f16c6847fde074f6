"""What a controller wants is a function of what is there; what is made once is kept."""

import datetime
import random
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
import pytest
from attrs import evolve

from informers import InformerOptions, Key, Snapshot
from reconcile import Context, Controller, Intent, ObjectMeta, SyncContext, Watch
from reconcile.errors import NondeterministicRun
from reconcile.kinds import ConfigMap, Secret
from reconcile.models.values import format_time
from reconcile.storms.determinism import rendering_differences, reordered_lists
from reconcile.testing import FakeClient, VirtualClock, assert_deterministic, run_once
from tests.helpers.managers import Toy, ToySpec, World, played
from tests.helpers.scenarios import in_world
from tests.storms.test_echoes import CONFIG, sent, state

Wanted = Callable[[Context[Toy]], Mapping[str, str]]


def keeping(wanted: Wanted) -> Controller[Toy]:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=wanted(ctx)))

    return Controller(Toy, keep, owns=[ConfigMap])


def a_world() -> FakeClient:
    labels = {"b": "2", "a": "1"}
    return FakeClient(Toy(metadata=ObjectMeta("a", "default", labels=labels), spec=ToySpec(size=3)))


IMPURE: Mapping[str, Wanted] = {
    "the time": lambda ctx: {"x": ctx.clock.now().isoformat()},
    "the time past the clock": lambda ctx: {"x": datetime.datetime.now(datetime.UTC).isoformat()},
    "chance": lambda ctx: {"x": str(ctx.clock.random())},
    "chance past the clock": lambda ctx: {"x": str(random.random())},
    "identity": lambda ctx: {"x": str(ctx.clock.uuid())},
    "a salt": lambda ctx: {"x": f"hash:{ctx.clock.random():.4f}", "fixed": "1"},
    "the order of a mapping": lambda ctx: {"x": ",".join(ctx.object.metadata.labels)},
}


@pytest.mark.rule("storm-purity")
@pytest.mark.parametrize("what", IMPURE)
async def test_a_value_that_is_not_a_function_of_the_state_is_an_error_with_its_path(what: str) -> None:
    client = a_world()
    with pytest.raises(NondeterministicRun, match="generate_once") as error:
        await assert_deterministic(keeping(IMPURE[what]), "default/a", client)
    assert error.value.paths == ("ConfigMap default/child: .data.x",)
    assert client.transport.writes == []


@pytest.mark.rule("storm-purity")
async def test_dependence_on_the_order_of_a_list_of_objects_is_detected() -> None:
    async def first(ctx: Context[Toy]) -> None:
        toys = await ctx.client.list(Toy, "default")
        ctx.status(size=toys[0].spec.size)

    client = a_world()
    client.add(Toy(metadata=ObjectMeta("b", "default"), spec=ToySpec(size=4)))
    with pytest.raises(NondeterministicRun, match=r"Toy default/a/status: \.status\.size"):
        await assert_deterministic(Controller(Toy, first), "default/a", client)


async def keep_sorted(ctx: Context[Toy]) -> None:
    words = ",".join(sorted({"alpha", "beta", "gamma", "delta", "epsilon"}))
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": words}))


async def keep_unsorted(ctx: Context[Toy]) -> None:
    words = ",".join({"alpha", "beta", "gamma", "delta", "epsilon"})
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"x": words}))


sorts = Controller(Toy, keep_sorted, owns=[ConfigMap])
forgets = Controller(Toy, keep_unsorted, owns=[ConfigMap])


@pytest.mark.rule("storm-purity")
async def test_dependence_on_the_order_of_a_set_is_detected_in_other_interpreters() -> None:
    with pytest.raises(NondeterministicRun, match=r"ConfigMap default/child: \.data\.x"):
        await assert_deterministic(forgets, "default/a", a_world())


async def test_a_function_of_the_state_passes_in_all_of_them() -> None:
    await assert_deterministic(sorts, "default/a", a_world())


async def test_a_failed_run_raises_its_error() -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await assert_deterministic(Controller(Toy, fail), "default/a", a_world())


def noting(child: ConfigMap) -> Mapping[str, str]:
    """What a status or a child of the child may note of what the server chose in this run."""
    assert child.metadata.creation_timestamp is not None
    return {
        "uid": child.uid,
        "text": f"child/{child.uid}",
        "version": child.metadata.resource_version or "",
        "name": child.name,
        "created": format_time(child.metadata.creation_timestamp),
    }


async def keep_noted(ctx: Context[Toy]) -> None:
    """As kubebuilder's CronJob notes references to the Jobs that it has just made."""
    children = [one for one in await ctx.client.list(ConfigMap, "default") if one.metadata.labels.get("of")]
    if not children:
        metadata = ObjectMeta(generate_name="child-", namespace="default", labels={"of": ctx.object.name})
        children = [await ctx.client.create(ConfigMap(metadata=metadata))]
    note = noting(children[0])
    ctx.condition("Ready", True, reason="Made", message=f"{note['name']} {note['text']}")
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=note))


async def keep_applied(ctx: Context[Toy]) -> None:
    child = await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("first"), data={"x": "1"}))
    ctx.condition("Ready", True, reason="Made", message=f"{child.uid} since {noting(child)['created']}")
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=noting(child)))


@pytest.mark.rule("storm-purity")
@pytest.mark.parametrize("keep", [keep_noted, keep_applied])
async def test_a_recorded_value_chosen_by_the_server_is_a_function_of_the_state(keep: Any) -> None:
    await assert_deterministic(
        Controller(Toy, keep, owns=[ConfigMap], writes=[ConfigMap]), "default/a", a_world()
    )


@pytest.mark.rule("storm-purity")
async def test_use_of_the_current_second_is_detected_even_if_a_child_is_created_in_it() -> None:
    def now(ctx: Context[Toy]) -> Mapping[str, str]:
        return {"x": ctx.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}

    with pytest.raises(NondeterministicRun, match=r"\.data\.x"):
        await assert_deterministic(keeping(now), "default/a", a_world())


def due(ctx: Context[Toy]) -> Mapping[str, str]:
    """What a schedule makes of the time: the last full five minutes, and the day."""
    now = ctx.clock.now()
    return {"last": now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0).isoformat()}


@pytest.mark.rule("storm-purity")
@pytest.mark.parametrize("seconds", [0, 1, 47, 48.99, 49, 59.999, 299, 86_399])
async def test_a_scheduled_action_that_is_due_is_due_in_both_runs(seconds: float) -> None:
    client = a_world()
    assert isinstance(client.clock, VirtualClock)
    client.clock.advance(seconds)
    await assert_deterministic(keeping(due), "default/a", client)


@pytest.mark.rule("storm-purity")
async def test_the_first_run_is_at_the_clients_time_and_the_second_later_by_the_given_time() -> None:
    times: list[datetime.datetime] = []

    def note(ctx: Context[Toy]) -> Mapping[str, str]:
        times.append(ctx.clock.now())
        return {"x": ctx.clock.now().date().isoformat()}

    client = a_world()
    assert isinstance(client.clock, VirtualClock)
    client.clock.advance(30 * 86_400)
    await assert_deterministic(keeping(note), "default/a", client)
    with pytest.raises(NondeterministicRun, match=r"\.data\.x"):
        await assert_deterministic(keeping(note), "default/a", client, later=datetime.timedelta(days=1))
    start = client.clock.now()
    assert [round((time - start).total_seconds()) for time in times] == [0, 11, 60, 60 + 86_400]


# --- with debug=True ----------------------------------------------------------------------------------------


def failures_under_debug(controller: Controller[Toy], caplog: pytest.LogCaptureFixture) -> list[str]:
    async def scenario(world: World) -> None:
        async with world.running(controller, debug=True):
            await world.make()
            await anyio.sleep(2)
            assert await world.client.find(ConfigMap, "child", "default") is not None

    played(scenario)
    return [str(vars(one)["error"]) for one in caplog.records if "NondeterministicRun" in str(vars(one))]


@pytest.mark.rule("storm-purity")
def test_a_manager_with_debug_fails_nondeterministic_runs(caplog: pytest.LogCaptureFixture) -> None:
    found = failures_under_debug(keeping(IMPURE["chance"]), caplog)
    assert found
    assert "ConfigMap default/child: .data.x" in found[0]


@pytest.mark.parametrize("keep", [keep_noted, keep_applied])
def test_a_manager_with_debug_accepts_a_recorded_value_chosen_by_the_server(
    keep: Any, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller(Toy, keep, owns=[ConfigMap], writes=[ConfigMap])
    assert failures_under_debug(controller, caplog) == []


def test_a_plain_function_is_rehearsed_too(caplog: pytest.LogCaptureFixture) -> None:
    def keep(ctx: SyncContext[Toy]) -> None:
        data = {"x": str(ctx.clock.random()), "kept": ctx.generate_once("salt", lambda: "s")}
        ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=data))

    found = failures_under_debug(Controller(Toy, keep, owns=[ConfigMap], writes=[Secret]), caplog)
    assert "ConfigMap default/child: .data.x" in found[0]
    assert ".data.kept" not in found[0]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"x": ["a", "b"], "y": ["a"]}, {"x": ["b", "a"], "y": ["b"]}, [".data.x"]),
        ({"a.b/c": ["a", "b"]}, {"a.b/c": ["b", "a"]}, [".data.a.b/c"]),
        ({"x": [{"env": [1, 2]}, 3]}, {"x": [{"env": [2, 1]}, 3]}, [".data.x[0].env"]),
        ({"x": [{"n": "a", "m": 1}, {}]}, {"x": [{}, {"m": 1, "n": "a"}]}, [".data.x"]),
        ({"x": {"y": [1, 2]}, "z": [1, 2]}, {"x": {"y": [2, 1]}, "z": [2, 1]}, [".data.x.y", ".data.z"]),
        ({"x": [1, 1, 2]}, {"x": [1, 2, 2]}, []),
        ({"x": [1, 2]}, {"x": [2, 1, 3]}, []),
        ({"x": [1, 2]}, {"y": [2, 1]}, []),
        ({"x": {"a": [1, 2]}}, {"x": [{"a": [2, 1]}]}, []),
        ({"x": [{"a": [1, 2]}]}, {"x": {"a": [2, 1]}}, []),
        ({"x": [1, 2], "y": "ab"}, {"x": [1, 2], "y": "ba"}, []),
    ],
)
def test_a_list_written_in_another_order_only_is_reported(
    before: Mapping[str, Any], after: Mapping[str, Any], told: list[str]
) -> None:
    write = sent({}, state(4, **before), state(5, **after))
    assert reordered_lists([write]) == [
        f"ConfigMap default/c: {path}, which has another order only" for path in told
    ]


def test_the_order_of_server_managed_lists_is_not_reported() -> None:
    fields = [{"manager": "a"}, {"manager": "b"}]
    old, new = (
        Snapshot.from_json(
            msgspec.json.encode({"metadata": {"resourceVersion": version, "managedFields": kept}})
        )
        for version, kept in (("4", fields), ("5", fields[::-1]))
    )
    assert reordered_lists([sent({}, old, new)]) == []


def test_a_write_without_effect_or_without_a_known_state_before_and_after_reorders_nothing() -> None:
    old, new = state(4, x=[1, 2]), state(4, x=[2, 1])
    assert (
        reordered_lists([sent({}, old, new), sent({}, None, new), evolve(sent({}, old, new), written=None)])
        == []
    )


def test_a_difference_names_the_object_and_subresource() -> None:
    key, other = Key("default", "a"), Key("default", "b")
    one = {(CONFIG, key, ""): {"x": [1], "y": 1}, (CONFIG, other, ""): 1, (CONFIG, key, "status"): 1}
    two = {(CONFIG, key, ""): {"x": [2], "y": 1}, (CONFIG, other, "status"): 1, (CONFIG, key, "status"): 2}
    assert rendering_differences(one, two) == [
        "ConfigMap default/a: .x[0]",
        "ConfigMap default/b: appears in only one of two renderings",
        "ConfigMap default/a/status: all of it",
        "ConfigMap default/b/status: appears in only one of two renderings",
    ]


def test_a_nondeterministic_run_is_reported_with_the_paths_and_a_remedy() -> None:
    assert str(NondeterministicRun([".a", ".b"])) == (
        "desired state is not a function of what is there: .a, .b: the same state has to give the same "
        "desired state: leave the time out, sort what comes from a set or a list of objects, and take "
        "passwords and salts from ctx.generate_once"
    )


# --- generate_once ------------------------------------------------------------------------------------------


def generating(seen: list[str]) -> Controller[Toy]:
    async def keep(ctx: Context[Toy]) -> None:
        seen.append(await ctx.generate_once("password", lambda: f"{ctx.clock.random():.12f}"))
        salt = await ctx.generate_once("salt", lambda: f"{ctx.clock.random():.12f}")
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"hash": f"{salt}-of-it"}))

    return Controller(Toy, keep, owns=[ConfigMap], writes=[Secret])


@pytest.mark.rule("storm-generate-once")
async def test_a_generated_value_is_created_once_and_kept() -> None:
    seen: list[str] = []
    client, controller = a_world(), generating(seen)
    first = await run_once(controller, "default/a", client)
    second = await run_once(controller, "default/a", client)
    assert [write.split()[0:2] for write in first.writes] == [
        ["create", "secrets"],
        ["patch", "secrets"],
        ["apply", "configmaps"],
    ]
    assert second.writes == []
    assert seen[0] == seen[1]
    kept = await client.get(Secret, "a-generated", "default")
    assert sorted(kept.data) == ["password", "salt"]
    assert kept.metadata.owner_references[0].name == "a"


@pytest.mark.rule("storm-generate-once")
async def test_generated_values_are_deterministic_from_the_first_run_on() -> None:
    seen: list[str] = []
    client, controller = a_world(), generating(seen)
    await run_once(controller, "default/a", client)
    await assert_deterministic(controller, "default/a", client)


@pytest.mark.rule("storm-generate-once")
async def test_a_value_created_by_another_writer_meanwhile_is_used() -> None:
    seen: list[str] = []

    async def keep(ctx: Context[Toy]) -> None:
        def make() -> str:
            client.add(Secret(metadata=ObjectMeta("a-generated", "default"), data={"password": "dGhlaXJz"}))
            return "mine"

        seen.append(await ctx.generate_once("password", make))

    client = a_world()
    assert (await run_once(Controller(Toy, keep, writes=[Secret]), "default/a", client)).error is None
    assert seen == ["theirs"]


@pytest.mark.rule("storm-generate-once")
@pytest.mark.parametrize("stripped", [False, True])
@in_world(played)
async def test_a_value_in_the_cache_is_not_requested_again_and_a_lost_one_is_recreated(
    world: World, stripped: bool
) -> None:
    seen: list[str] = []
    watched: Watch[Toy, Secret] = Watch(Secret, by=lambda toy: f"{toy.name}-generated")
    shape = {Secret: InformerOptions(drop=["/data"])} if stripped else {}

    def asked(world: World) -> int:
        return sum("/secrets/a-generated" in one.path for one in world.transport.requests if not one.mutating)

    await world.make("a")
    controller = evolve(generating(seen), watches=[watched])
    async with world.running(controller, informers=shape) as manager:
        await anyio.sleep(5)
        before, first = asked(world), len(seen)
        manager.trigger(controller, "default/a")
        await anyio.sleep(5)
        assert len(seen) == first + 1
        assert len(set(seen)) == 1
        assert (asked(world) > before) is stripped
        await world.client.delete(await world.client.get(Secret, "a-generated", "default"))
        await anyio.sleep(5)
        assert len(set(seen)) == 2


def test_a_rehearsal_and_its_run_generate_the_same_value(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    assert failures_under_debug(generating(seen), caplog) == []
    assert len(set(seen)) == 1
