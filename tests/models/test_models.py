"""Classes and JSON: names, absence and zeros, errors with paths, definitions."""

import datetime
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs
import pytest
from attrs import frozen

from reconcile import Condition, Object, ObjectMeta, field, kind_of, resource
from reconcile.errors import DecodeError
from reconcile.kinds import Pod
from reconcile.models import Schema, decode, definition_of, encode, unstructured_kind
from reconcile.testing import FakeClient


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Port:
    number: int
    target: int | str | None = None


@frozen
class EverySpec:
    """Every kind of field."""

    image: str
    pull_secret: str | None = None
    count: int = 1
    ratio: float = 0.5
    on: bool = False
    since: datetime.datetime | None = None
    color: Color = Color.RED
    mode: Literal["fast", "slow"] = "fast"
    ports: tuple[Port, ...] = ()
    labels: Mapping[str, str] = {}
    extra: Mapping[str, Any] = {}
    pod_ip: Annotated[str, Schema(wire="podIP")] = ""
    from_: str = ""


@frozen
class EveryStatus:
    ready: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1")
class Every(Object):
    spec: EverySpec
    status: EveryStatus = EveryStatus()


FULL = {
    "image": "i",
    "pullSecret": "p",
    "count": 0,
    "ratio": 1.5,
    "on": True,
    "since": "2026-01-02T03:04:05Z",
    "color": "blue",
    "mode": "slow",
    "ports": [{"number": 1, "target": "http"}, {"number": 2, "target": 3}],
    "labels": {"a": "b"},
    "extra": {"deep": [1, {"x": None}]},
    "podIP": "10.0.0.1",
    "from": "f",
}


def body(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Every", "metadata": {"name": "e"}, "spec": spec}


def test_every_field_round_trips_under_its_wire_name_and_is_stored_by_the_server() -> None:
    every = decode(Every, body(**FULL))
    assert encode(every)["spec"] == FakeClient().add(every)["spec"] == FULL


def test_a_definition_has_the_values_of_an_enum_and_only_the_declared_subresources() -> None:
    version = definition_of(Every)["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["color"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert version["subresources"] == {"status": {}}


def test_an_absent_value_gives_the_default_and_null_means_absent_unless_none_is_allowed() -> None:
    spec = decode(Every, body(image="i", count=None, ports=None, pullSecret=None)).spec
    assert spec == EverySpec(image="i")


def test_zeros_are_written_and_only_a_default_of_none_is_omitted() -> None:
    written = encode(Every(metadata=ObjectMeta("e"), spec=EverySpec(image="", count=0, on=False)))["spec"]
    assert (written["image"], written["count"], written["on"]) == ("", 0, False)
    assert "pullSecret" not in written
    assert "since" not in written


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, r"\.spec\.image: required, but missing"),
        ({"image": 1}, r"\.spec\.image: expected a string, got 1"),
        ({"image": "i", "count": "1"}, r"\.spec\.count: expected an integer, got '1'"),
        ({"image": "i", "on": 1}, r"\.spec\.on: expected true or false, got 1"),
        ({"image": "i", "count": True}, r"\.spec\.count: expected an integer, got true"),
        ({"image": "i", "ports": [{"number": 1}, {}]}, r"\.spec\.ports\[1\]\.number: required, but missing"),
        ({"image": "i", "color": "green"}, r"\.spec\.color: expected one of red, blue, got 'green'"),
        (
            {"image": "i", "since": "yesterday"},
            r"\.spec\.since: expected a time with a time zone, got 'yesterday'",
        ),
        ({"image": "i", "ports": "x"}, r"\.spec\.ports: "),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_its_path(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode(Every, body(**spec))


def test_a_naive_time_is_refused() -> None:
    spec = EverySpec(image="i", since=datetime.datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="without a time zone"):
        encode(Every(metadata=ObjectMeta("e"), spec=spec))


def test_a_class_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a subclass of Object: class Wrong\(Object\)"):

        @resource("example.com/v1")
        class Wrong:  # type: ignore[type-var]
            pass


def test_a_subclass_without_the_decorator_is_not_a_kind() -> None:
    class Bare(Object):
        pass

    with pytest.raises(TypeError, match="Bare is not a kind: decorate it"):
        kind_of(Bare)


@frozen
class Listed:
    ports: list[int] = attrs.field(factory=list)


@frozen
class Odd:
    thing: int | bytes = 0


@frozen
class Twice:
    pod_ip: str = ""
    podIp: str = ""


@attrs.define
class Loose:
    x: int = 0


@frozen
class Holder:
    loose: Mapping[str, tuple[Loose, ...]] = field(factory=dict)


@pytest.mark.rule("model-frozen")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Loose, r"Loose can be changed, and what is decoded cannot: make it @frozen"),
        (Holder, r"Holder\.loose: Loose can be changed"),
        (Odd, r"Odd\.thing: int \| bytes: a union is"),
        (Listed, r"Listed\.ports: list\[int\] has no place in a model: .*write tuple\[X, \.\.\.\]"),
        (Twice, r"Twice\.pod_ip and \.podIp are both 'podIp' in JSON"),
    ],
)
def test_a_field_type_without_a_json_form_is_refused_on_class_creation(spec: Any, message: str) -> None:
    made = type("Made", (Object,), {"__annotations__": {"spec": spec}})
    with pytest.raises(TypeError, match=message):
        resource("example.com/v1")(made)


def test_a_kind_without_a_model_is_read_and_written_as_a_mapping() -> None:
    obj = decode(unstructured_kind("v1", "Some"), b'{"metadata":{"name":"a"},"spec":{"x":[1,2]}}')
    assert (obj.name, obj["spec"]) == ("a", {"x": [1, 2]})
    assert encode(obj) == {
        "apiVersion": "v1",
        "kind": "Some",
        "metadata": {"name": "a"},
        "spec": {"x": [1, 2]},
    }
    renamed = obj.with_metadata(name="b", labels={"l": "m"})
    assert encode(renamed)["metadata"] == {"name": "b", "labels": {"l": "m"}}


def test_a_pod_is_ready_by_its_ready_condition() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert decode(Pod, {"metadata": {"name": "p"}, "status": ready}).ready
    assert not decode(Pod, {"metadata": {"name": "p"}}).ready
