"""What a class does not know survives its writes, inside lists and maps too."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve, frozen

from reconcile import Object, field, resource
from reconcile.errors import StaleVersion
from reconcile.testing import FakeClient
from tests.helpers.definitions import ANYTHING, definition, object_of


@frozen
class Port:
    name: str
    number: int = 0


@frozen
class GateSpec:
    ports: tuple[Port, ...] = ()
    by_name: Mapping[str, Port] = field(factory=dict)
    template: Mapping[str, Any] = field(factory=dict)
    size: int = 1


@resource("example.com/v1")
class Gate(Object):
    spec: GateSpec = GateSpec()


DEFINITION = definition("Gate", object_of(spec=ANYTHING))
SPEC: dict[str, Any] = {
    "unknown": {"zero": 0, "empty": "", "no": False, "list": [1.50, {"a": None}]},
    "ports": [
        {"name": "a", "number": 0, "weight": 0, "deep": {"x": [1]}},
        {"name": "b", "number": 2, "colour": "red"},
    ],
    "byName": {"a": {"name": "a", "colour": "blue", "number": 1}},
    "template": {"spec": {"containers": [{"name": "c", "env": []}]}},
    "size": 0,
}


async def stored() -> FakeClient:
    client = FakeClient()
    await client.apply(DEFINITION)
    metadata = {"name": "g", "namespace": "default"}
    client.add({"apiVersion": "example.com/v1", "kind": "Gate", "metadata": metadata, "spec": SPEC})
    return client


async def spec_of(client: FakeClient) -> dict[str, Any]:
    snapshot = await client.find(Gate, "g", "default")
    assert snapshot is not None
    raw = await client.raw.snapshot(Gate.__kind__.resource, snapshot.key, live=True)
    assert raw is not None
    spec: dict[str, Any] = raw.to_dict()["spec"]
    return spec


async def test_a_draft_can_be_changed_at_any_depth_without_changing_its_snapshot() -> None:
    client = await stored()
    gate = await client.get(Gate, "g", "default")
    async with client.editing(gate) as draft:
        draft.spec.template["spec"]["containers"][0]["env"].append({"name": "A", "value": ""})
        draft.spec.size = 3
    wanted = copy.deepcopy(SPEC)
    wanted["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": ""}]
    wanted["size"] = 3
    assert await spec_of(client) == wanted
    assert gate.spec.template == SPEC["template"]
    assert gate.spec.size == 0


@pytest.mark.rule("model-unknown")
async def test_an_update_keeps_fields_unknown_to_the_class() -> None:
    client = await stored()
    gate = await client.get(Gate, "g", "default")
    first, second = gate.spec.ports
    await client.raw.update(gate.replace(spec=evolve(gate.spec, size=7, ports=(second, first))))
    wanted = copy.deepcopy(SPEC)
    wanted["size"] = 7
    wanted["ports"].reverse()
    assert await spec_of(client) == wanted
    with pytest.raises(StaleVersion):
        await client.raw.update(gate)
    assert await spec_of(client) == wanted
