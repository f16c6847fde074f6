"""A key's own writes wake it once, and never hide what somebody else wrote."""

import os
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest

from informers import APIResource, Delta, Key, Snapshot
from reconcile import Cause, Client, Context, Controller, Intent, ObjectMeta, Request, kind_of
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap, Namespace
from reconcile.runs.write_events import EndedWrite
from reconcile.storms import Echoes, Origin, is_echo
from reconcile.testing import Coalesce, Cut, Expire, Fault, FaultPlan, FaultyTransport, LateTransport, When
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world
from tests.helpers.writes import ended_write

CONFIG = kind_of(ConfigMap).resource
A, C = Request("default", "a"), Key("default", "c")
SEEDS = 400
RUN = SEEDS if os.environ.get("STORMS_IN_FULL") else 24


def state(version: int, **data: Any) -> Snapshot:
    body = {
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": str(version)},
        "data": data,
    }
    return Snapshot.from_json(msgspec.json.encode(body))


def sent(body: Any, base: Snapshot | None, written: Snapshot, fresh: bool = False) -> EndedWrite:
    return ended_write("PATCH", CONFIG, C, "", body, base, written, fresh)


OLD = state(4)


# --- what is an echo ----------------------------------------------------------------------------------


@pytest.mark.rule("storm-echo")
@pytest.mark.parametrize(
    ("old", "new"),
    [(state(3, x="1"), state(5, x="2")), (state(4, x="1"), state(6, x="2")), (None, state(5, x="2"))],
)
def test_another_state_before_or_after_is_not_an_echo(old: Snapshot | None, new: Snapshot) -> None:
    assert not is_echo(sent({"data": {"x": "2"}}, state(4, x="1"), state(5, x="2")), old, new)


@pytest.mark.rule("storm-echo")
def test_a_write_bound_to_one_version_is_an_echo_whatever_the_server_added() -> None:
    body = {"metadata": {"resourceVersion": "4"}, "data": {"x": "2"}}
    write = sent(body, state(4, x="1"), state(5, x="2", added="by admission"))
    assert is_echo(write, state(4, x="1"), state(5, x="2", added="by admission"))


@pytest.mark.rule("storm-echo")
@pytest.mark.parametrize(("version", "echo"), [("4", True), ("3", False)])
def test_a_json_patch_that_tests_a_version_is_an_echo_only_from_that_version(
    version: str, echo: bool
) -> None:
    body = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/data/x", "value": "2"},
    ]
    write = sent(body, state(4, x="1"), state(5, x="2"))
    assert is_echo(write, state(4, x="1"), state(5, x="2")) is echo


@pytest.mark.rule("storm-echo")
def test_the_creation_of_an_object_is_an_echo_only_if_no_other_writer_can_have_created_it() -> None:
    for fresh in (True, False):
        assert is_echo(sent({}, None, state(5), fresh), None, state(5)) is fresh


ONE, TWO = {"n": "1", "v": 1}, {"n": "1", "v": 2}


@pytest.mark.rule("storm-echo")
@pytest.mark.parametrize(
    ("body", "old", "new", "echo"),
    [
        ({"x": "2"}, {"x": "1"}, {"x": "2"}, True),
        ({"x": "2"}, {"x": "1"}, {"x": "1"}, True),  # what the server did not carry out is nobody's change
        ({"x": "2"}, {"x": "1"}, {"x": "3"}, False),
        ({"x": "2"}, {"x": "1"}, {}, False),
        ({"x": "2"}, {}, {"x": "2"}, True),
        ({"x": "2"}, {}, {"x": "2", "y": None}, False),
        ({"x": None}, {"x": "1"}, {}, True),
        ({"x": None}, {"x": "1", "y": "1"}, {}, False),
        ({"x": None}, {"x": "1"}, {"x": None}, False),
        ({"x": {"a": 1}}, {"x": {"b": 1}}, {"x": {"a": 1, "b": 1}}, True),
        ({"x": {"a": 1}}, {"x": {"b": 1}}, {"x": {"a": 1, "b": 2}}, False),
        ({"x": {"a": 1}}, {"x": "1"}, {"x": {"a": 1}}, True),
        ({"x": "1"}, {"x": {"a": 1}}, {"x": {"a": 2}}, False),
        ({"x": [TWO]}, {"x": [ONE]}, {"x": [TWO]}, True),
        ({"x": [TWO]}, {"x": [ONE | {"w": 1}]}, {"x": [TWO | {"w": 1}]}, True),
        ({"x": [TWO]}, {"x": [ONE]}, {"x": [TWO | {"w": 1}]}, False),
        ({"x": [TWO]}, {"x": []}, {"x": [TWO]}, True),
        ({"x": [TWO]}, {"x": []}, {"x": [TWO, ONE]}, False),
        ({"x": [TWO]}, {"x": [ONE]}, {"x": [TWO, ONE]}, False),
        ({"x": [TWO]}, {"x": [ONE, ONE]}, {"x": [TWO, TWO]}, False),
        ({"x": [TWO, TWO]}, {"x": [ONE]}, {"x": [TWO, ONE]}, False),
        ({"x": []}, {"x": [ONE]}, {"x": [TWO]}, False),
        ({}, {"x": [ONE]}, {"x": [TWO]}, False),
    ],
)
def test_a_difference_that_the_write_does_not_name_is_not_an_echo(
    body: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any], echo: bool
) -> None:
    one, other = state(4, **old), state(5, **new)
    assert is_echo(sent({"data": body}, one, other), one, other) is echo


@pytest.mark.rule("storm-echo")
def test_concurrent_foreign_metadata_are_not_an_echo_but_server_managed_metadata_are() -> None:
    def with_metadata(version: int, **metadata: Any) -> Snapshot:
        obj = state(version, x=str(version)).to_dict()
        return Snapshot.from_json(msgspec.json.encode({**obj, "metadata": {**obj["metadata"], **metadata}}))

    old, body = with_metadata(4, generation=1), {"data": {"x": "5"}}
    kept, foreign = (
        with_metadata(5, generation=2, managedFields=[{}], **more) for more in ({}, {"labels": {"a": "1"}})
    )
    assert is_echo(sent(body, old, kept), old, kept)
    assert not is_echo(sent(body, old, foreign), old, foreign)


@pytest.mark.rule("storm-echo")
@pytest.mark.parametrize("body", [None, "text", b"bytes", 5, [], [{"op": "replace", "path": "/data/x"}]])
def test_a_write_with_neither_a_version_nor_a_desired_state_has_no_echo(body: Any) -> None:
    old, new = state(4, x="1"), state(5, x="2")
    assert not is_echo(sent(body, old, new), old, new)


@pytest.mark.rule("storm-confirm")
def test_an_echo_wakes_until_a_run_that_will_see_it_has_started() -> None:
    for begun, news in ((False, Origin.OWN), (True, Origin.SEEN)):
        echoes = Echoes()
        echoes.expect(A, sent({"data": {"x": "2"}}, state(4), state(5, x="2")))
        if begun:
            echoes.begin(A, ())
        for _handler in range(2):
            assert echoes.classify(A, CONFIG, Delta(state(4), state(5, x="2"))) is news
        echoes.begin(A, ())
        assert len(echoes) == 0


@pytest.mark.rule("storm-confirm")
def test_an_echo_counts_only_for_its_own_key() -> None:
    echoes = Echoes()
    echoes.expect(A, sent({"data": {"x": "2"}}, state(4), state(5, x="2")))
    other = Request("default", "b")
    assert echoes.classify(other, CONFIG, Delta(state(4), state(5, x="2"))) is Origin.FOREIGN


@pytest.mark.rule("storm-causes")
@pytest.mark.parametrize(
    ("body", "base", "fresh", "cause", "echo"),
    [
        ({"data": {"x": "2"}}, state(4), False, Cause("updated", CONFIG, C, 5, since=4), True),
        ({"data": {"x": "2"}}, state(4), False, Cause("updated", CONFIG, C, 5, since=3), False),
        ({"data": {"x": "2"}}, state(4), False, Cause("updated", CONFIG, C, 4, since=3), False),
        ({"data": {"x": "1"}}, state(4), False, Cause("updated", CONFIG, C, 5, since=4), False),
        ({}, None, True, Cause("added", CONFIG, C, 5), True),
        ({}, None, True, Cause("updated", CONFIG, C, 5, since=1), False),
        ({}, None, False, Cause("added", CONFIG, C, 5), False),
        ({}, None, True, Cause("retried"), False),
    ],
)
def test_an_event_before_the_answer_is_recognised_as_an_echo_when_the_next_run_starts(
    body: Any, base: Snapshot | None, fresh: bool, cause: Cause, echo: bool
) -> None:
    echoes = Echoes()
    echoes.expect(A, sent(body, base, state(5, x="2"), fresh))
    assert [one.echo for one in echoes.begin(A, [cause])] == [echo]


@pytest.mark.rule("storm-foreign")
def test_of_several_handlers_only_those_that_saw_the_state_before_the_write_see_an_echo() -> None:
    def told(*olds: Snapshot | None, base: Snapshot | None = OLD) -> list[Origin]:
        echoes = Echoes()
        echoes.expect(A, sent({"data": {"x": "2"}}, base, state(5, x="2"), fresh=True))
        return [echoes.classify(A, CONFIG, Delta(old, state(5, x="2"))) for old in olds]

    assert told(OLD, OLD) == [Origin.OWN, Origin.OWN]
    assert told(OLD, state(3), OLD) == [Origin.OWN, Origin.FOREIGN, Origin.OWN]
    assert told(OLD, None) == [Origin.OWN, Origin.FOREIGN]
    assert told(state(3), OLD, state(3)) == [Origin.FOREIGN] * 3
    assert told(None, None, state(1), base=None) == [Origin.OWN, Origin.OWN, Origin.FOREIGN]


@pytest.mark.rule("storm-foreign")
def test_a_resync_a_deletion_and_another_version_are_not_echoes() -> None:
    echoes = Echoes()
    echoes.expect(A, sent({"data": {"x": "2"}}, state(4), state(5, x="2")))
    news = [
        Delta(state(5, x="2"), state(5, x="2"), resync=True),
        Delta(state(5, x="2"), None),
        Delta(state(4), state(6, x="2")),
    ]
    assert [echoes.classify(A, CONFIG, delta) for delta in news] == [Origin.FOREIGN] * 3


@pytest.mark.parametrize(
    "write",
    [
        ended_write("DELETE", CONFIG, C, "", None, OLD, None),
        ended_write("PATCH", CONFIG, C, "", {}, OLD, state(5), dry=True),
        ended_write("PATCH", CONFIG, C, "", {}, OLD, OLD),
    ],
)
def test_a_write_that_changed_nothing_has_no_echo_to_wait_for(write: EndedWrite) -> None:
    echoes = Echoes()
    echoes.expect(A, write)
    assert len(echoes) == 0


def test_writes_to_unwatched_resources_are_not_remembered() -> None:
    echoes = Echoes()
    echoes.resources = {kind_of(Toy).resource}
    echoes.expect(A, sent({}, None, state(5), fresh=True))
    assert len(echoes) == 0


def test_discarding_an_event_of_a_key_keeps_its_other_writes() -> None:
    echoes = Echoes()
    echoes.expect(A, sent({"data": {"x": "2"}}, state(4), state(5, x="2")))
    echoes.expect(A, sent({"data": {"x": "3"}}, state(5, x="2"), state(6, x="3")))
    for other in (Delta(state(4), None), Delta(state(3), state(4))):
        echoes.discard(A, CONFIG, other)
    echoes.discard(Request("default", "b"), CONFIG, Delta(state(5, x="2"), state(6, x="3")))
    echoes.discard(A, CONFIG, Delta(state(4), state(5, x="2")))
    assert echoes.classify(A, CONFIG, Delta(state(4), state(5, x="2"))) is Origin.FOREIGN
    assert echoes.classify(A, CONFIG, Delta(state(5, x="2"), state(6, x="3"))) is Origin.OWN
    echoes.discard(A, CONFIG, Delta(state(5, x="2"), state(6, x="3")))
    assert len(echoes) == 0


def test_a_key_whose_echoes_have_all_arrived_takes_no_memory() -> None:
    echoes = Echoes()
    echoes.expect(A, sent({}, None, state(5), fresh=True))
    echoes.end(A, wrote=True)
    assert len(echoes) == 1
    echoes.end(A, wrote=False)
    assert len(echoes) == 0


# --- runs -----------------------------------------------------------------------------------------------


@pytest.mark.rule("storm-causes")
@in_world(played)
async def test_a_child_written_twice_wakes_only_by_echoes(world: World) -> None:
    causes: list[Cause] = []

    async def count(ctx: Context[Toy]) -> None:
        causes.extend(ctx.causes)
        child = await ctx.client.find(ConfigMap, "c", "default")
        number = 0 if child is None else int((child.data or {})["n"])
        if number < 5:
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("c"), data={"n": str(number + 1)}))

    async with world.running(Controller(Toy, count, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(60)
    assert [cause.echo for cause in causes] == [False] + [True] * 5
    assert [cause.verb for cause in causes[1:]] == ["added"] + ["updated"] * 4


@pytest.mark.rule("storm-causes")
@in_world(played)
async def test_the_log_of_a_failed_run_shows_its_causes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("no")

    async with world.running(Controller(Toy, fail)):
        await world.make()
        await anyio.sleep(0.5)
    lines = [str(vars(one)) for one in caplog.records if vars(one)["event"] == "failed"]
    assert "'woken_by': ['toys.toys.example.com default/a added at" in lines[0]


@pytest.mark.rule("storm-confirm")
@pytest.mark.parametrize("seed", range(6))
@in_world(played)
async def test_a_run_with_several_writes_is_confirmed_by_exactly_one_run(world: World, seed: int) -> None:
    runs: list[tuple[bool, ...]] = []

    async def make_three(ctx: Context[Toy]) -> None:
        runs.append(tuple(cause.echo for cause in ctx.causes))
        for number in range(3):
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"c{number}"), data={"x": "1"}))

    async with world.running(Controller(Toy, make_three, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(60)
    assert len(runs) == 2
    assert all(runs[1])


@pytest.mark.rule("storm-confirm")
@in_world(played)
async def test_a_run_that_wrote_nothing_is_not_confirmed(world: World) -> None:
    runs = 0

    async def look(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1

    async with world.running(Controller(Toy, look, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(60)
    assert runs == 1


@pytest.mark.rule("storm-goes-on")
@pytest.mark.parametrize("seed", range(8))
@in_world(played)
async def test_adding_a_finalizer_and_returning_makes_progress(world: World, seed: int) -> None:
    async def stepwise(ctx: Context[Toy]) -> None:
        toy = ctx.object
        if not toy.metadata.finalizers:
            await ctx.client.raw.merge(toy, {"metadata": {"finalizers": ["example.com/held"]}})
            return
        ctx.status(size=7)

    async with world.running(Controller(Toy, stepwise, writes=[Toy])):
        await world.make()
        await anyio.sleep(10)
        assert (await world.client.get(Toy, "a", "default")).status.size == 7


@pytest.mark.rule("storm-goes-on")
@pytest.mark.parametrize("seed", range(8))
@in_world(played)
async def test_creating_a_child_and_returning_makes_progress(world: World, seed: int) -> None:
    async def stepwise(ctx: Context[Toy]) -> None:
        children = await ctx.owned(ConfigMap)
        if len(children) < 5:
            await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="child-")))
            return
        ctx.status(size=len(children))

    async with world.running(Controller(Toy, stepwise, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(30)
        assert (await world.client.get(Toy, "a", "default")).status.size == 5


# --- nothing foreign is lost ------------------------------------------------------------------------------


def survived(seed: int) -> Mapping[str, Any]:
    """A minute of own and foreign writes to one child, under coalesced news; what the operator saw last."""
    seen: dict[str, Any] = {}

    async def keep(ctx: Context[Toy]) -> None:
        child = await ctx.client.find(ConfigMap, "c", "default")
        seen["note"] = None if child is None else (child.data or {}).get("note")
        data = {"size": str(ctx.object.spec.size), "echoed": seen["note"] or "none"}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("c"), data=data))

    async def scenario(world: World) -> None:
        faults = (
            Fault(
                When("watch", "*/configmaps", 1),
                Coalesce(after=1 + seed % 5, events=2 + seed % 3, seconds=5.0),
            ),
            Fault(When("watch", "*/configmaps", 2), Cut(after=1 + seed % 4)),
            Fault(When("watch", "*/configmaps", 3), Expire(after=1 + seed % 3)),
            Fault(When("watch", "*/toys", 1), Expire(after=2 + seed % 4)),
        )
        late = LateTransport(InProcessTransport(world.server), seed, lag=(0.001, 0.05 + seed % 7 / 10))
        world.transport = FaultyTransport(late, FaultPlan(faults))
        stranger = Client(InProcessTransport(world.server), field_manager="stranger", clock=world.clock)
        async with world.running(Controller(Toy, keep, owns=[ConfigMap])):
            await world.make()
            await anyio.sleep(1 + world.clock.random())
            for number in range(12):
                await stranger.raw.patch(
                    CONFIG, Key("default", "c"), {"data": _foreign(number, world.clock.random())}, guard={}
                )
                await anyio.sleep(0.4 * world.clock.random() ** 3)
                if world.clock.random() < 0.3:
                    await _resize(world, number)
            await anyio.sleep(60)
            child = await world.client.get(ConfigMap, "c", "default")
            toy = await world.client.get(Toy, "a", "default")
        seen["wanted"] = "11"
        seen["size"] = (child.data or {}).get("size"), str(toy.spec.size)

    played(scenario, seed)
    return seen


def _foreign(number: int, chance: float) -> dict[str, str]:
    return {"note": str(number), **({"size": "drift"} if chance < 0.5 else {})}


async def _resize(world: World, number: int) -> None:
    toy = await world.client.get(Toy, "a", "default")
    await world.client.raw.merge(toy, {"spec": {"size": number + 2}}, guard={})


@pytest.mark.rule("storm-foreign")
def test_no_foreign_change_is_lost_to_an_echo(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(RUN):
        found = survived(seed)
        assert found["note"] == found["wanted"], f"seed {seed}"
        assert found["size"][0] == found["size"][1], f"seed {seed}"
    with capsys.disabled():
        print(f" [{RUN} seeds run, {SEEDS} in full]", end="")


def test_an_event_taken_for_an_echo_by_its_object_alone_would_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def classify(self: Echoes, request: Request, resource: APIResource, delta: Delta) -> Origin:
        written = {(resource, key) for resource, key, _ in self._expected.get(request, {})}
        return Origin.SEEN if (resource, delta.last.key) in written else Origin.FOREIGN

    monkeypatch.setattr(Echoes, "classify", classify)
    found = [survived(seed) for seed in range(16)]
    assert any(one["note"] != one["wanted"] or one["size"][0] != one["size"][1] for one in found)


@in_world(played)
async def test_writes_that_wake_no_key_are_forgotten(world: World) -> None:
    """A heartbeat in an object of an owned kind that it does not own, since that has another namespace."""
    beats = 0

    async def beat(ctx: Context[Toy]) -> None:
        nonlocal beats
        beats += 1
        await ctx.client.apply(
            Intent(ConfigMap, metadata=ObjectMeta("beat", "shared"), data={"n": str(beats)})
        )

    await world.client.create(Namespace(metadata=ObjectMeta("shared")))
    async with world.running(Controller(Toy, beat, owns=[ConfigMap], every=10)) as manager:
        await world.make()
        await anyio.sleep(600)
        (remembered,) = manager._runners[0]._executor.echoes._expected.values()
    assert beats > 50
    assert len(remembered) <= 2
