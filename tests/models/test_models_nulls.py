"""UNSET, None and a default stay three things in changes too: a merge patch alone could not say null."""

from typing import Annotated, Any

import pytest
from attrs import evolve, frozen

from reconcile import UNSET, Key, Object, ObjectMeta, kind_of, resource
from reconcile.client.diff import overlaid, sets_null
from reconcile.client.object_writes import ObjectWrites
from reconcile.errors import StaleVersion
from reconcile.models import Schema, UnsetType
from reconcile.testing import FakeClient


@frozen
class Port:
    name: str
    number: int | UnsetType | None = UNSET


@frozen
class GateSpec:
    colour: str | UnsetType | None = UNSET
    given: str | None = "g"
    ports: Annotated[tuple[Port, ...], Schema(list_type="map", list_map_keys=("name",))] = ()


@resource("example.com/v1")
class Gate(Object):
    spec: GateSpec = GateSpec()


GATE = Gate(
    metadata=ObjectMeta("g", "default", labels={"a": "b"}),
    spec=GateSpec(colour="red", ports=(Port("a", 1), Port("b"))),
)


async def stored(client: FakeClient) -> Any:
    snapshot = await client.raw.snapshot(kind_of(Gate).resource, Key("default", "g"), live=True)
    assert snapshot is not None
    return snapshot.to_dict()


@pytest.mark.rule("model-null")
@pytest.mark.parametrize("colour", [None, UNSET, "", "blue"])
@pytest.mark.parametrize("given", [None, "g", ""])
@pytest.mark.parametrize("number", [None, UNSET, 0])
async def test_modify_stores_exactly_the_returned_object(colour: Any, given: Any, number: Any) -> None:
    def change(gate: Gate) -> Gate:
        ports = (evolve(gate.spec.ports[0], number=number), gate.spec.ports[1])
        return gate.replace(spec=evolve(gate.spec, colour=colour, given=given, ports=ports))

    for spec in (GATE.spec, GateSpec(colour=None, given=None, ports=GATE.spec.ports), GATE.spec):
        client = FakeClient(GATE.replace(spec=spec))
        assert (await client.modify(Gate, "g", "default", change=change)).spec == change(GATE).spec
        assert ("colour" in (await stored(client))["spec"]) == (colour is not UNSET)


async def test_a_draft_can_make_a_value_null_beside_other_changes() -> None:
    client = FakeClient(GATE)
    async with client.editing(await client.get(Gate, "g", "default")) as draft:
        draft.spec.colour = None
        draft.metadata.labels["c"] = "d"
        del draft.metadata.labels["a"]
    body = await stored(client)
    assert (body["spec"]["colour"], body["metadata"]["labels"]) == (None, {"c": "d"})


async def test_a_null_is_written_only_at_the_version_that_was_read() -> None:
    client = FakeClient(GATE)
    gate = await client.get(Gate, "g", "default")
    with pytest.raises(StaleVersion):
        async with client.editing(gate) as draft:
            await client.modify(Gate, "g", "default", change=lambda g: g.with_metadata(labels={"x": "y"}))
            draft.spec.colour = None
    assert (await stored(client))["spec"]["colour"] == "red"


async def test_modify_writes_a_null_on_top_of_changes_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient(GATE)
    interfered: list[int] = []

    async def interfere() -> None:
        await client.modify(Gate, "g", "default", change=lambda g: g.with_metadata(labels={"x": "y"}))

    real = ObjectWrites._stored_form

    async def late(writes: ObjectWrites, obj: Object) -> Any:
        found = await real(writes, obj)
        if not interfered:
            interfered.append(1)
            await interfere()
        return found

    monkeypatch.setattr(ObjectWrites, "_stored_form", late)
    await client.modify(Gate, "g", "default", change=lambda g: g.replace(spec=evolve(g.spec, colour=None)))
    body = await stored(client)
    assert (body["spec"]["colour"], body["metadata"]["labels"], interfered) == (None, {"x": "y"}, [1])


@pytest.mark.parametrize(
    ("before", "after", "null"),
    [
        ({}, {"a": None}, True),
        ({"a": 1}, {"a": None}, True),
        ({"a": None}, {"a": None}, False),
        ({"a": None}, {}, False),
        ({"a": {"b": 1}}, {"a": {"b": None}}, True),
        ({}, {"a": {"b": None}}, True),
        ({"a": {"b": None}}, {"a": {"b": None}}, False),
        ({"a": {"b": None}}, {"a": {"b": None, "c": None}}, True),
        ({"a": [1]}, {"a": [None]}, True),
    ],
)
def test_changes_that_a_merge_patch_cannot_express_are_detected(before: Any, after: Any, null: bool) -> None:
    assert sets_null(before, after) is null
    assert overlaid(before, after, {**before, "unknown": [0]}) == {**after, "unknown": [0]}
