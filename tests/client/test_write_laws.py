"""What holds of every way to write, whoever else writes at the same time."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile import (
    Client,
    Condition,
    Context,
    Controller,
    Intent,
    Object,
    ObjectMeta,
    Result,
    kind_of,
    resource,
)
from reconcile.embedded import InProcessTransport
from reconcile.errors import AlreadyExists, ApiError, Conflict, OwnedByOther, PreconditionFailed, StaleVersion
from reconcile.kinds import ConfigMap
from reconcile.models import Scale
from reconcile.testing import FakeClient, FaultyTransport, LateTransport, run_once
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world, simulated


@frozen
class Part:
    name: str = ""
    size: int = 1


@frozen
class BoxSpec:
    replicas: int = 1
    open: bool = True
    label: str = "x"
    parts: tuple[Part, ...] = ()


@frozen
class BoxStatus:
    replicas: int = 0
    selector: str = ""
    seen: int = 9
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", plural="boxes", scale=Scale())
class Box(Object):
    spec: BoxSpec = BoxSpec()
    status: BoxStatus = BoxStatus()


THEIRS = {
    "type": "Theirs",
    "status": "True",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "x": 0,
}
BOX = Box(metadata=ObjectMeta("b", "default"), spec=BoxSpec(parts=(Part("p"),)))
PATH = "/apis/example.com/v1/namespaces/default/boxes/b"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boxes.example.com"

WayToWrite = Callable[[Client, Box], Awaitable[object]]


def served(*objects: Object) -> FakeClient:
    """A server that keeps more of a box than its model knows."""
    client = FakeClient(*objects)
    client.serve(Box)
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = client.request("GET", DEFINITION)
    (version,) = definition["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for name in ("spec", "status"):
        properties[name] |= loose
    properties["spec"]["properties"]["parts"]["items"] |= loose
    properties["status"]["properties"]["conditions"]["items"] |= loose
    client.request("PATCH", DEFINITION, {"spec": {"versions": [version]}})
    return client


async def stored(client: FakeClient) -> dict[str, Any]:
    found: dict[str, Any] = client.request("GET", PATH)
    return found


# --- the ways to write ----------------------------------------------------------------------------


async def edit(client: Client, box: Box) -> None:
    async with client.editing(box) as draft:
        draft.spec.label = "mine"


async def edit_a_part(client: Client, box: Box) -> None:
    async with client.editing(box) as draft:
        draft.spec.parts[0].size = 7


async def edit_status(client: Client, box: Box) -> None:
    async with client.editing(box, subresource="status") as draft:
        draft.status.seen = 7


async def merge(client: Client, box: Box) -> None:
    await client.raw.merge(box, {"spec": {"label": "mine"}})


async def modify(client: Client, box: Box) -> None:
    await client.modify(
        Box,
        "b",
        "default",
        lambda now: now.replace(spec=evolve(now.spec, label="mine", parts=(Part("p", 7),))),
    )


async def apply(client: Client, box: Box) -> None:
    metadata = {"name": "b", "namespace": "default"}
    intent = {"apiVersion": "example.com/v1", "kind": "Box", "metadata": metadata, "spec": {"label": "mine"}}
    await client.apply(intent)


async def scale(client: Client, box: Box) -> None:
    await client.scale(box, lambda now: now + 1)


async def set_scale(client: Client, box: Box) -> None:
    await client.raw.set_scale(box, 5, expect=1)


async def update(client: Client, box: Box) -> None:
    await client.raw.update(box.replace(spec=evolve(box.spec, label="mine")))


async def delete(client: Client, box: Box) -> None:
    await client.delete(box)


async def again(client: Client, box: Box, write: WayToWrite) -> None:
    """What a controller does that met a stale version: decide again on the present state."""
    try:
        await write(client, box)
    except StaleVersion:
        await write(client, await client.get(Box, "b", "default"))


FOREIGN: dict[str, tuple[str, dict[str, Any]]] = {
    "finalizer": ("", {"metadata": {"finalizers": ["example.com/theirs"]}}),
    "owner": ("", {"metadata": {"ownerReferences": []}}),
    "condition": ("/status", {"status": {"conditions": [THEIRS]}}),
    "unknown field": ("", {"spec": {"theirs": {"deep": [1, {"er": False}]}}}),
    "unknown field of a part": ("", {"spec": {"parts": [{"name": "p", "size": 1, "theirs": 0}]}}),
    "label": ("", {"metadata": {"labels": {"theirs": ""}}}),
    "unknown status": ("/status", {"status": {"theirs": {"n": 0}}}),
}


def contains(whole: Any, part: Any) -> bool:
    """Whether all that a merge patch says is there; of an element of a list, more may be."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(contains(whole.get(k), v) for k, v in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(contains(one, p) for one in whole) for p in part)
    return bool(whole == part)


@pytest.mark.rule("write-1", "write-3")
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([edit, edit_a_part, edit_status, merge, modify, apply, scale, set_scale]),
    st.lists(st.sampled_from(sorted(FOREIGN)), min_size=1, max_size=4, unique=True),
)
@simulated
async def test_concurrent_additions_between_read_and_write_survive(
    write: WayToWrite, additions: list[str]
) -> None:

    client = served(BOX, ConfigMap(metadata=ObjectMeta("owner", "default")))
    owner = (await client.get(ConfigMap, "owner", "default")).uid
    box = await client.get(Box, "b", "default")
    added = []
    for name in additions:
        subresource, patch = FOREIGN[name]
        if name == "owner":
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
            patch = {"metadata": {"ownerReferences": [reference]}}
        if name == "unknown field of a part" and write in (edit_a_part, modify):
            patch = {"spec": {"parts": [{"name": "p", "theirs": 0}]}}
        client.request("PATCH", f"{PATH}{subresource}", patch)
        added.append(patch)
    before = await stored(client)
    await again(client, box, write)
    after = await stored(client)
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    for patch in added:
        if "size" not in str(patch) or write is not edit_a_part:
            assert contains(after, patch), (write.__name__, patch)


@pytest.mark.rule("write-4")
@pytest.mark.parametrize("write", [edit, edit_a_part, edit_status, merge, scale, set_scale, update, delete])
async def test_no_way_to_write_touches_a_recreated_object(write: WayToWrite) -> None:
    client = served(BOX)
    box = await client.get(Box, "b", "default")
    await client.delete(box)
    client.add(BOX)
    before = await stored(client)
    with pytest.raises((PreconditionFailed, StaleVersion)):
        await write(client, box)
    assert await stored(client) == before


@pytest.mark.rule("write-5")
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.sampled_from(["modify", "scale", "late"]), min_size=2, max_size=4))
@simulated
async def test_concurrent_increments_lose_no_update(seed: int, writers: list[str]) -> None:
    """Each adds 1 three times, through the object or its scale, on a server that answers late."""

    client = served(BOX)
    slow = FaultyTransport(LateTransport(InProcessTransport(client.server, settle=True), seed))
    mine = Client(slow, clock=client.clock)
    box = await mine.get(Box, "b", "default")
    refused: list[ApiError] = []

    async def count_up(how: str) -> None:
        for _ in range(3):
            if how != "scale":
                await mine.modify(
                    Box,
                    "b",
                    "default",
                    lambda now: now.replace(spec=evolve(now.spec, replicas=now.spec.replicas + 1)),
                )
                continue
            while True:
                try:
                    await mine.scale(box, lambda now: now + 1)
                    break
                except StaleVersion as error:
                    refused.append(error)

    async with anyio.create_task_group() as group:
        for how in writers:
            group.start_soon(count_up, how)
    assert (await stored(client))["spec"]["replicas"] == 1 + 3 * len(writers)


# --- intents --------------------------------------------------------------------------------------

FIELDS = ["a", "b", "c", "d"]
INTENTS = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(FIELDS), st.sampled_from("123"), max_size=4), st.booleans()),
    min_size=1,
    max_size=5,
)


@pytest.mark.rule("write-7")
@settings(max_examples=40, deadline=None)
@given(INTENTS, st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from("123"), min_size=1))
@simulated
async def test_after_an_apply_the_object_has_the_intent_and_the_fields_of_others_and_nothing_else(
    intents: list[tuple[dict[str, str], bool]], theirs: dict[str, str]
) -> None:
    """A field that the intent drops disappears, also where the process was started anew in between."""

    client = FakeClient()
    metadata = ObjectMeta("c", "default")
    other = client.with_options(field_manager="other")
    await other.apply(Intent(ConfigMap, metadata=metadata, data=theirs))
    mine = Client(client.transport, clock=client.clock, field_manager="mine")
    for intent, restarted in intents:
        if restarted:
            mine = Client(client.transport, clock=client.clock, field_manager="mine")
        await mine.apply(Intent(ConfigMap, metadata=metadata, data=intent))
        assert dict((await client.get(ConfigMap, "c", "default")).data) == {**theirs, **intent}
        managed = client.request("GET", "/api/v1/namespaces/default/configmaps/c")
        owned = {
            one["manager"]: set(one["fieldsV1"].get("f:data", {})) - {"."}
            for one in managed["metadata"]["managedFields"]
        }
        assert owned.get("mine", set()) == {f"f:{name}" for name in intent}
        assert owned["other"] == {f"f:{name}" for name in theirs}


@pytest.mark.rule("write-7")
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["a", "b"]), st.sampled_from(["drift", None]))
@in_world(played)
async def test_drift_is_repaired_by_the_next_run_and_changes_of_others_cause_no_apply(
    world: World, seed: int, field: str, drifted: str | None
) -> None:
    """A minute in which somebody says something new each second, and once changes what is intended."""

    async def keep(ctx: Context[Toy]) -> Result:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"a": "1", "b": "2"}))
        return Result(requeue_after=1)

    child = kind_of(ConfigMap).resource.path("default", "child")
    async with world.running(Controller(Toy, keep, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(5)
        applied = len(world.transport.writes)
        for second in range(30):
            news = {"metadata": {"annotations": {"status": str(second)}}, "data": {"z": str(second)}}
            if second == 15:
                news["data"][field] = drifted  # type: ignore[assignment]
            known = await world.client.get(ConfigMap, "child", "default")
            await world.client.raw.merge(known, news)
            await anyio.sleep(1)
            if second == 14:
                assert len(world.transport.writes) == applied
        assert len(world.transport.writes) == applied + 1
        assert world.transport.writes[-1].path == child
        data = dict((await world.client.get(ConfigMap, "child", "default")).data)
        assert data == {"a": "1", "b": "2", "z": "29"}


# --- values and refusals ----------------------------------------------------------------------------


async def zeroes_edited(client: FakeClient, box: Box) -> None:
    async with client.editing(box) as draft:
        draft.spec.replicas, draft.spec.open, draft.spec.label = 0, False, ""


async def zeroes_modified(client: FakeClient, box: Box) -> None:
    await client.modify(Box, "b", "default", lambda now: now.replace(spec=BoxSpec(0, False, "")))


async def zeroes_applied(client: FakeClient, box: Box) -> None:
    await client.apply(Intent(Box, metadata=ObjectMeta("b", "default"), spec=BoxSpec(0, False, "")))


async def zeroes_put(client: FakeClient, box: Box) -> None:
    await client.raw.update(box.replace(spec=BoxSpec(0, False, "")))


async def zeroes_created(client: FakeClient, box: Box) -> None:
    await client.delete(box)
    await client.create(Box(metadata=ObjectMeta("b", "default"), spec=BoxSpec(0, False, "")))


@pytest.mark.rule("patch-2")
@pytest.mark.parametrize(
    "write", [zeroes_edited, zeroes_modified, zeroes_applied, zeroes_put, zeroes_created]
)
async def test_zero_false_and_empty_values_are_sent_by_every_way_to_write(write: Any) -> None:
    client = served(BOX)
    await write(client, await client.get(Box, "b", "default"))
    spec = (await stored(client))["spec"]
    assert (spec["replicas"], spec["open"], spec["label"]) == (0, False, "")


@pytest.mark.rule("patch-2")
async def test_a_status_of_zero_is_written() -> None:
    async def say(ctx: Context[Box]) -> None:
        ctx.status(replicas=0, seen=0, selector="")

    client = served(BOX)
    assert (await run_once(Controller(Box, say), BOX, client)).error is None
    assert contains(await stored(client), {"status": {"replicas": 0, "seen": 0, "selector": ""}})


async def exists_already(client: Client, box: Box) -> None:
    await client.create(BOX)


async def is_stale(client: Client, box: Box) -> None:
    await client.raw.merge(box, {"spec": {"parts": []}}, guard={"uid": box.uid, "resourceVersion": "1"})


async def is_owned(client: Client, box: Box) -> None:
    intent = Intent(Box, metadata=ObjectMeta("b", "default"), spec=BoxSpec(label="theirs"))
    await client.with_options(field_manager="new").apply(intent, force=False)


async def was_replaced(client: Client, box: Box) -> None:
    await client.delete(box.with_metadata(uid="00000000-0000-0000-0000-000000000000"))


@pytest.mark.rule("patch-3")
@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (exists_already, AlreadyExists),
        (is_stale, StaleVersion),
        (is_owned, OwnedByOther),
        (was_replaced, PreconditionFailed),
    ],
)
async def test_each_kind_of_409_has_its_own_type_and_only_a_stale_version_is_retried_at_once(
    write: WayToWrite, kind: type[Conflict]
) -> None:
    client = served(BOX)
    with pytest.raises(Conflict) as refusal:
        await write(client, await client.get(Box, "b", "default"))
    assert type(refusal.value) is kind
    assert refusal.value.code == 409

    async def run(ctx: Context[Box]) -> None:
        await write(ctx.client, ctx.object)

    done = await run_once(Controller(Box, run, writes=[Box]), BOX, client)
    assert (type(done.error), done.retry) == ((type(None) if kind is StaleVersion else kind), True)
