"""From a class to a CustomResourceDefinition that a server takes."""

import datetime
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from attrs import frozen

from reconcile import UNSET, Condition, LabelSelector, Object, ObjectMeta, Quantity, field, resource
from reconcile.errors import Invalid
from reconcile.models import Column, MicroTime, Rule, Scale, Schema, UnsetType, definition_of
from reconcile.testing import FakeClient
from tests.models.triggers import Burst, Cron


class Speed(enum.IntEnum):
    SLOW = 1
    FAST = 2


@frozen
class Port:
    """A port."""

    number: Annotated[int, Schema(minimum=1, maximum=65535, format="int32")]
    """Where it listens."""
    protocol: Literal["TCP", "UDP"] = "TCP"


@frozen
class GateSpec:
    """What a gate lets through.

    In two paragraphs.
    """

    image: Annotated[str, Schema(min_length=1, pattern="^[a-z:]+$")]
    replicas: Annotated[int, Schema(minimum=0)] = 1
    """How many of it."""
    low: int | None = None
    high: int | None = None
    ports: Annotated[
        tuple[Port, ...], Schema(list_type="map", list_map_keys=("number", "protocol"), max_items=9)
    ] = ()
    names: Annotated[tuple[Annotated[str, Schema(max_length=3)], ...], Schema(list_type="set")] = ()
    every: datetime.timedelta | None = None
    at: MicroTime | None = None
    memory: Quantity | None = None
    speed: Speed = Speed.SLOW
    trigger: Cron | Burst | None = None
    selector: Annotated[LabelSelector, Schema(map_type="atomic")] = field(factory=LabelSelector)
    limits: Annotated[Mapping[str, Quantity], Schema(max_properties=5)] = field(factory=dict)
    template: Mapping[str, Any] | None = None
    mode: Annotated[str, Schema(rules=Rule("self == oldSelf", "mode cannot be changed"))] = "a"
    port: int | str | None = None


@frozen
class GateStatus:
    replicas: int = 0
    selector: str = ""
    conditions: tuple[Condition, ...] = ()


@resource(
    "example.com/v1",
    short_names=("gt",),
    categories=("all",),
    columns={
        "Image": ".spec.image",
        "Since": Column(".metadata.creationTimestamp"),
        "Ready": Column(".status.replicas", priority=1, description="How many are ready"),
    },
    rules=(Rule("!has(self.spec.low) || self.spec.low <= self.spec.high", "low is above high"),),
    scale=Scale(),
)
class Gate(Object):
    """A gate."""

    spec: GateSpec
    status: GateStatus = GateStatus()


def gate_schema() -> dict[str, Any]:
    schema: dict[str, Any] = definition_of(Gate)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def manifest(kind: str = "Gate", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": metadata, "spec": spec}


def gates() -> FakeClient:
    """A client of a server that serves gates."""
    return FakeClient(Gate(metadata=ObjectMeta("other", "default"), spec=GateSpec(image="i")))


def test_the_schema_matches_the_class() -> None:
    schema = gate_schema()
    assert schema["description"] == "A gate."
    spec = schema["properties"]["spec"]
    assert spec["description"] == "What a gate lets through.\n\nIn two paragraphs."
    assert spec["required"] == ["image"]
    properties = spec["properties"]
    assert properties["image"] == {"type": "string", "minLength": 1, "pattern": "^[a-z:]+$"}
    assert properties["replicas"] == {
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "default": 1,
        "description": "How many of it.",
    }
    assert properties["ports"]["x-kubernetes-list-type"] == "map"
    assert properties["ports"]["x-kubernetes-list-map-keys"] == ["number", "protocol"]
    assert properties["ports"]["items"]["properties"]["number"]["description"] == "Where it listens."
    assert properties["ports"]["items"]["properties"]["number"]["format"] == "int32"
    assert properties["names"]["items"] == {"type": "string", "maxLength": 3}
    assert properties["every"] == {"type": "string", "format": "duration"}
    assert properties["speed"] == {"type": "integer", "enum": [1, 2], "default": 1}
    assert properties["mode"]["x-kubernetes-validations"] == [
        {"rule": "self == oldSelf", "message": "mode cannot be changed"}
    ]
    assert properties["selector"]["x-kubernetes-map-type"] == "atomic"
    status = schema["properties"]["status"]["properties"]
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]


def test_columns_have_types_priorities_and_descriptions_and_age_appears_once() -> None:
    columns = definition_of(Gate)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert columns == [
        {"name": "Image", "type": "string", "jsonPath": ".spec.image"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {
            "name": "Ready",
            "type": "integer",
            "jsonPath": ".status.replicas",
            "description": "How many are ready",
            "priority": 1,
        },
    ]


def test_the_server_accepts_the_definition_and_an_object_with_every_field() -> None:
    spec = {
        "image": "i",
        "replicas": 0,
        "ports": [{"number": 80, "protocol": "TCP"}, {"number": 80, "protocol": "UDP"}],
        "names": ["a", "b"],
        "every": "5m",
        "at": "2026-01-02T03:04:05.000001Z",
        "memory": "1.5Gi",
        "speed": 2,
        "trigger": {"type": "Cron", "schedule": "@daily"},
        "selector": {"matchLabels": {"a": "b"}},
        "limits": {"cpu": 1},
        "template": {"spec": {"deep": [1]}},
        "mode": "b",
        "port": "http",
    }
    assert gates().add(manifest(**spec))["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"image": ""}, "at least 1"),
        ({"replicas": -1}, "greater than or equal to 0"),
        ({"low": 2, "high": 1}, "low is above high"),
        ({"trigger": {"type": "Burst"}}, "target is required where type is Burst"),
        ({"trigger": {"type": "Tide"}}, "Unsupported value"),
        ({"names": ["long"]}, "3"),
        ({"ports": [{"number": 1}, {"number": 1}]}, "Duplicate value"),
        ({"memory": "much"}, "memory"),
        ({"speed": 3}, "Unsupported value"),
    ],
)
def test_the_server_validates_the_constraints_of_the_class(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        gates().add(manifest(**{"image": "i", **spec}))


def test_the_stored_defaults_are_those_of_the_class() -> None:
    assert gates().add(manifest(image="i"))["spec"] == {"image": "i", "replicas": 1, "speed": 1, "mode": "a"}


@frozen
class Tree:
    children: "tuple[Tree, ...]" = ()


def test_a_recursive_class_has_no_structural_schema() -> None:
    made = resource("example.com/v1")(type("Forest", (Object,), {"__annotations__": {"spec": Tree}}))
    with pytest.raises(TypeError, match="Tree contains itself"):
        definition_of(made)


@frozen
class NoDefault:
    replicas: int


@frozen
class Text:
    replicas: str = "1"


@frozen
class Good:
    replicas: int = 1


@frozen
class NoSelector:
    replicas: int = 0


@frozen
class GoodStatus:
    replicas: int = 0
    selector: str = ""


@pytest.mark.rule("model-scale")
@pytest.mark.parametrize(
    ("spec", "status", "scale", "message"),
    [
        (NoDefault, GoodStatus, Scale(), r"\.spec\.replicas has no default"),
        (Text, GoodStatus, Scale(), r"\.spec\.replicas is not an integer"),
        (Good, NoSelector, Scale(), r"\.status\.selector does not exist: NoSelector has no 'selector'"),
        (Good, GoodStatus, Scale(replicas=".spec.size"), r"\.spec\.size does not exist: Good has no 'size'"),
        (Good, GoodStatus, Scale(replicas=".status.replicas"), "the replicas path is below .spec"),
        (Good, GoodStatus, Scale(selector=".status.replicas"), r"\.status\.replicas is not a string"),
        (Good, GoodStatus, Scale(status=".status.selector"), r"\.status\.selector is not an integer"),
    ],
)
def test_an_invalid_scale_is_refused_on_class_creation(
    spec: Any, status: Any, scale: Scale, message: str
) -> None:
    made = type("Fleet", (Object,), {"__annotations__": {"spec": spec, "status": status}})
    with pytest.raises(TypeError, match=message):
        resource("example.com/v1", scale=scale)(made)


def test_a_valid_scale_is_a_subresource() -> None:
    assert definition_of(Gate)["spec"]["versions"][0]["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }


@resource("example.com/v1", scale=Scale())
class Fleet(Object):
    spec: Good = Good()
    status: GoodStatus = GoodStatus()


async def test_an_object_without_a_spec_can_be_scaled_too() -> None:
    client = FakeClient(Fleet(metadata=ObjectMeta("other", "default")))
    fleet = manifest("Fleet")
    del fleet["spec"]
    client.add(fleet)
    assert await client.scale(await client.get(Fleet, "g", "default"), lambda replicas: replicas + 1) == 2


@frozen
class NamedSpec:
    image: str
    replicas: int = 1


@pytest.mark.rule("model-scale")
@pytest.mark.parametrize(
    ("spec", "default", "message"),
    [
        (NamedSpec, NamedSpec("i"), r"\.spec may be absent and needs 'image'.*make it `spec: NamedSpec`"),
        (Good | None, None, r"\.spec may be absent and is None by default.*make it `spec: Good`"),
    ],
)
def test_a_default_that_the_server_cannot_reach_is_refused(spec: Any, default: Any, message: str) -> None:
    made = type(
        "Fleet", (Object,), {"__annotations__": {"spec": spec, "status": GoodStatus}, "spec": default}
    )
    with pytest.raises(TypeError, match=message):
        resource("example.com/v1", scale=Scale())(made)


@frozen
class NullSpec:
    needed: str | None
    given: str | None = "g"
    three: str | UnsetType | None = UNSET
    left_out: str | None = None
    names: tuple[str | None, ...] = ()
    by_name: Mapping[str, int | None] = field(factory=dict)


@resource("example.com/v1")
class Null(Object):
    spec: NullSpec


@pytest.mark.rule("model-null")
async def test_null_is_stored_if_the_class_distinguishes_it_from_absence_or_a_default() -> None:
    spec = NullSpec(given=None, three=None, needed=None, names=("a", None), by_name={"a": None})
    client = FakeClient(Null(metadata=ObjectMeta("n", "default"), spec=spec))
    assert (await client.get(Null, "n", "default")).spec == spec
    stored = client.add(manifest("Null", needed="x", given=None, names=[None]))
    assert stored["spec"] == {"needed": "x", "given": None, "names": [None]}


@frozen
class Lamp:
    lamp_name: str | None = None
    number: int = 1


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ((), r"Spec\.lamps: a list of type map needs list_map_keys"),
        (("lamp_name",), r"no item has the key 'lamp_name'; in JSON they have lampName, number"),
        (("lampName",), r"Spec\.lamps: an item may lack its key 'lampName'"),
    ],
)
def test_field_names_that_a_server_would_refuse_are_refused(keys: tuple[str, ...], message: str) -> None:
    @frozen
    class Spec:
        lamps: Annotated[tuple[Lamp, ...], Schema(list_type="map", list_map_keys=keys)] = ()

    made = resource("example.com/v1")(type("House", (Object,), {"__annotations__": {"spec": Spec}}))
    with pytest.raises(TypeError, match=message):
        definition_of(made)


def test_a_scale_over_undefined_classes_is_reported_as_such() -> None:
    made = type("Fleet", (Object,), {"__annotations__": {"spec": "Later"}})
    with pytest.raises(TypeError, match="'Later' is not defined: define the classes of its fields above it"):
        resource("example.com/v1", scale=Scale())(made)
