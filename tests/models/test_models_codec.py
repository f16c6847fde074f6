"""The wire: every name of every model, three sorts of nothing, values, tags, secrets, immutability."""

import copy
import datetime
import enum
import inspect
import json
import pickle
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs
import msgspec
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

import reconcile.embedded
from controllers.registrysecrets import models as registry_models
from controllers.workergroups import models as ray_models
from reconcile import UNSET, LabelSelector, Object, ObjectMeta, Quantity, field, kind_of, kinds, resource
from reconcile.errors import DecodeError
from reconcile.models import (
    LabelRequirement,
    MicroTime,
    Schema,
    UnsetType,
    decode,
    encode,
    structure,
    thaw,
    unstructure,
    unstructured_kind,
)
from reconcile.models.codec import encode_with
from reconcile.models.fields import ModelField, fields_of, split_annotated
from reconcile.models.writing import SharedJson
from tests.client.by_example import check_wire_names, classes_in
from tests.models.triggers import Burst, Cron

MODULES = (kinds, ray_models, registry_models)
BUILTINS = json.loads(
    (Path(reconcile.embedded.__file__).parent / "schema" / "builtin_types.json").read_text()
)


def models() -> Iterator[type[Object]]:
    seen = set()
    for module in MODULES:
        for value in vars(module).values():
            if inspect.isclass(value) and issubclass(value, Object) and hasattr(value, "__kind__"):
                seen.add(value)
    yield from sorted(seen, key=lambda cls: cls.__name__)


ALL_CLASSES = sorted(
    set().union(*(classes_in(model, set()) for model in models())), key=lambda cls: cls.__qualname__
)


@pytest.mark.rule("model-names")
@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
def test_every_field_of_every_model_is_read_and_written_under_its_wire_name(cls: type[Any]) -> None:
    check_wire_names(cls)


def builtin_fields(cls: type[Any], name: str) -> Iterator[tuple[str, ModelField, Mapping[str, str]]]:
    """Each field of a model of a built-in kind, beside the fields that the real type has."""
    real = BUILTINS["types"][name]["fields"]
    for one in fields_of(cls):
        yield f"{cls.__name__}.{one.name}", one, real
        inner = [c for c in classes_in(one.type, set()) if c is not ObjectMeta]
        wanted = real.get(one.wire, "").removesuffix("[]").removeprefix("[]")
        named = [c for c in inner if wanted in BUILTINS["types"]]
        direct = [
            part for part in (split_annotated(one.type)[0], *typing.get_args(one.type)) if part in named
        ]
        for cls_inside in direct:
            yield from builtin_fields(cls_inside, wanted)


@pytest.mark.rule("model-names")
@pytest.mark.parametrize(
    "model",
    [m for m in models() if m.__module__.startswith(f"{kinds.__name__}.")],
    ids=lambda cls: cls.__name__,
)
def test_every_field_name_of_a_built_in_model_exists_in_kubernetes(model: type[Object]) -> None:
    kind = kind_of(model).resource
    name = BUILTINS["kinds"][f"{kind.api_version} {kind.kind}"]
    for where, one, real in builtin_fields(model, name):
        assert one.wire in real, where


class Speed(enum.IntEnum):
    SLOW = 1
    FAST = 2


@frozen
class Everything:
    three: str | UnsetType | None = UNSET
    nullable: str | None = "given"
    speed: Speed = Speed.SLOW
    every: datetime.timedelta = datetime.timedelta(minutes=5)
    at: MicroTime | None = None
    memory: Quantity | None = None
    trigger: Cron | Burst | None = None
    triggers: tuple[Cron | Burst, ...] = ()
    by_name: Mapping[str, Burst] = field(factory=dict)
    times: Mapping[str, datetime.datetime] = field(factory=dict)
    names: tuple[Annotated[str, Schema(max_length=3)], ...] = ()
    template: Mapping[str, Any] = field(factory=dict)
    selector: LabelSelector = LabelSelector()
    anything: Any = None


@resource("example.com/v1")
class Whole(Object):
    spec: Everything = Everything()


def whole(**spec: Any) -> Whole:
    return decode(Whole, {"metadata": {"name": "w"}, "spec": spec})


@pytest.mark.rule("model-null")
def test_absent_null_and_default_are_distinct() -> None:
    assert whole().spec.three is UNSET
    assert whole(three=None).spec.three is None
    assert whole(three="x").spec.three == "x"
    assert "three" not in encode(whole())["spec"]
    assert encode(whole(three=None))["spec"]["three"] is None
    assert whole().spec.nullable == "given"
    assert whole(nullable=None).spec.nullable is None
    assert encode(whole(nullable=None))["spec"]["nullable"] is None


@pytest.mark.parametrize("trigger", [{"type": "Cron", "schedule": "@daily"}, {"type": "Burst", "target": 0}])
def test_a_union_of_classes_is_resolved_by_its_tag(trigger: dict[str, Any]) -> None:
    spec = whole(trigger=trigger, triggers=[trigger]).spec
    assert type(spec.trigger).__name__ == trigger["type"]
    assert unstructure(spec)["trigger"] == trigger
    assert unstructure(spec)["triggers"] == [trigger]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"trigger": {"type": "Tide"}}, r"\.spec\.trigger\.type: expected one of Cron, Burst, got 'Tide'"),
        ({"trigger": {"target": 1}}, r"\.spec\.trigger\.type: required, but missing"),
        ({"speed": 3}, r"\.spec\.speed: expected one of 1, 2, got 3"),
        ({"speed": True}, r"\.spec\.speed: expected one of 1, 2, got true"),
        ({"every": "5 minutes"}, r"\.spec\.every: expected a duration such as 1h30m, got '5 minutes'"),
        ({"memory": "much"}, r"\.spec\.memory: expected a quantity such as 500m, got 'much'"),
        (
            {"byName": {"a": {}, "b": {"target": "x"}}},
            r"\.a\.target: required, but missing; \.spec\.byName\.b\.target: expected an integer, got 'x'",
        ),
        ({"template": []}, r"\.spec\.template: expected an object, got a list"),
        ({"at": "2026-01-02T03:04:05"}, r"\.spec\.at: expected a time with a time zone"),
    ],
)
def test_values_that_do_not_fit_are_reported_with_their_paths(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        whole(**spec)


def test_all_faults_of_an_object_are_reported_together_and_as_data() -> None:
    with pytest.raises(DecodeError) as caught:
        whole(speed=9, every=1)
    assert [fault.path for fault in caught.value.errors] == [".spec.speed", ".spec.every"]


def test_a_micro_time_keeps_microseconds_and_a_time_whole_seconds() -> None:
    spec = whole(at="2026-01-02T03:04:05.123456Z", times={"a": "2026-01-02T05:04:05+02:00"}).spec
    assert unstructure(spec)["at"] == "2026-01-02T03:04:05.123456Z"
    assert unstructure(spec)["times"] == {"a": "2026-01-02T03:04:05Z"}


def test_quantities_are_equal_by_value_and_keep_their_text() -> None:
    assert Quantity("1") == Quantity("1000m") == Quantity(1)
    assert Quantity("1Ki") > Quantity("1k")
    assert unstructure(whole(memory="1000m").spec)["memory"] == "1000m"
    assert unstructure(whole(memory=2).spec)["memory"] == 2


def test_a_selector_matches_like_its_text() -> None:
    selector = LabelSelector(
        {"app": "web"}, (LabelRequirement("tier", "In", ("b", "a")), LabelRequirement("old", "DoesNotExist"))
    )
    assert selector.text() == "app=web,!old,tier in (a,b)"
    assert selector.matches({"app": "web", "tier": "a"})
    assert not selector.matches({"app": "web", "tier": "a", "old": ""})
    assert not selector.matches({"app": "web"})


def test_a_selector_is_written_without_empty_members_as_servers_drop_them() -> None:
    assert unstructure(LabelSelector({"app": "web"})) == {"matchLabels": {"app": "web"}}
    exists = LabelSelector(match_expressions=(LabelRequirement("tier", "Exists"),))
    assert unstructure(exists) == {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    assert unstructure(LabelSelector()) == {}


@frozen
class Port:
    number: int = attrs.field(converter=abs)
    protocol: str = attrs.field(default="TCP", validator=attrs.validators.in_(["TCP", "UDP"]))


@frozen
class Login:
    user: str
    password: str = field(default="", secret=True, validator=attrs.validators.matches_re("[a-z]*"))
    keys: Mapping[str, int] = field(factory=dict, secret=True)


def test_converters_and_validators_are_applied() -> None:
    assert structure(Port, {"number": -80}).number == 80
    with pytest.raises(DecodeError, match=r"Port refuses its values: 'protocol' must be in"):
        structure(Port, {"number": 1, "protocol": "IP"})


def noted(value: Any) -> Any:
    return ("noted", value)


@frozen
class Noted:
    integer: int = attrs.field(converter=noted)
    text: str = attrs.field(converter=noted)
    several: tuple[int, ...] = attrs.field(converter=noted)
    by_name: Mapping[str, str] = attrs.field(converter=noted)
    optional: int | None = attrs.field(default=None, converter=attrs.converters.optional(noted))
    speed: Speed = attrs.field(default=Speed.SLOW, converter=noted)
    inner: LabelSelector = attrs.field(default=LabelSelector(), converter=noted)
    anything: Any = attrs.field(default=0, converter=noted)


@pytest.mark.rule("model-converters")
def test_converters_run_on_values_at_any_depth() -> None:
    body = {"integer": 1, "text": "a", "several": [1], "byName": {"a": "b"}, "optional": 0, "speed": 2}
    (value, absent) = (structure(Noted, one) for one in (body, {**body, "optional": None}))
    wanted = Noted(1, "a", (1,), {"a": "b"}, 0, Speed.FAST)
    assert [f.name for f in attrs.fields(Noted) if getattr(value, f.name)[0] != "noted"] == []
    assert (value, absent.optional) == (wanted, None)


@pytest.mark.rule("model-secret")
@pytest.mark.parametrize(
    "body", [{"password": "HUNTER2"}, {"password": 12345}, {"keys": {"HUNTER2": "12345"}}]
)
def test_secret_values_are_shown_neither_in_errors_nor_in_repr(body: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        structure(Login, {"user": "u", **body})
    assert "HUNTER2" not in str(caught.value)
    assert "12345" not in str(caught.value)
    assert "hunter" not in repr(Login("u", "hunter"))


DEEP = {"a": {"b": [1, {"c": [{"d": 1}]}]}, "e": 1.0, "f": None, "g": []}
CHANGES = [
    lambda t: t.__setitem__("a", 1),
    lambda t: t["a"].update(x=1),
    lambda t: t["a"]["b"].append(1),
    lambda t: t["a"]["b"][1].pop("c"),
    lambda t: t["a"]["b"][1]["c"][0].__setitem__("d", 2),
    lambda t: t["a"]["b"].sort(),
    lambda t: t["g"].extend([1]),
]


@pytest.mark.rule("model-frozen")
@pytest.mark.parametrize("change", CHANGES)
def test_a_snapshot_cannot_be_changed_at_any_depth(change: Any) -> None:
    obj = whole(template=DEEP)
    with pytest.raises(TypeError, match=r"cannot be changed; copy it first: thaw"):
        change(obj.spec.template)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        obj.spec.speed = Speed.FAST  # type: ignore[misc]
    assert obj.spec.template == DEEP


@pytest.mark.parametrize("change", CHANGES)
def test_the_body_of_an_object_without_a_model_cannot_be_changed(change: Any) -> None:
    obj = decode(unstructured_kind("v1", "Some"), {"metadata": {"name": "a"}, "spec": DEEP})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(obj["spec"])


def test_an_absent_mapping_cannot_be_changed_either() -> None:
    with pytest.raises(TypeError, match="cannot be changed"):
        whole().spec.template["x"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    "copied", [thaw, copy.deepcopy, lambda t: encode(whole(template=t))["spec"]["template"]]
)
def test_copies_are_independent_and_can_be_changed(copied: Any) -> None:
    template = whole(template=DEEP).spec.template
    copied(template)["a"]["b"][1]["c"].append(2)
    assert template == DEEP


def test_a_decoded_object_does_not_follow_changes_to_its_source_mapping() -> None:
    body: dict[str, Any] = {"metadata": {"name": "w"}, "spec": {"template": copy.deepcopy(DEEP)}}
    obj = decode(Whole, body)
    body["spec"]["template"]["a"]["b"].clear()
    assert obj.spec.template == DEEP


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4))
def test_frozen_json_equals_its_source_and_gives_it_back(body: dict[str, Any]) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "w"}, "spec": {"template": body}})
    template = decode(Whole, raw).spec.template
    assert template == body
    assert body == template
    assert thaw(template) == body
    assert dict(template) == body
    assert pickle.loads(pickle.dumps(template)) == body
    assert msgspec.json.encode(encode(decode(Whole, raw))["spec"]["template"]) == msgspec.json.encode(body)


@given(st.lists(st.dictionaries(st.text("abc", max_size=2), JSON, max_size=3), max_size=4))
def test_objects_written_together_have_the_json_of_a_common_part_in_common(items: list[Any]) -> None:
    one = whole(anything=items, byName={"a": {"type": "Burst", "target": 1}}, template={"items": items})
    other = attrs.evolve(one, spec=attrs.evolve(one.spec, speed=Speed.FAST, names=("x",)))
    shared = SharedJson()
    written = [encode_with(obj, shared) for obj in (one, other)]
    assert written == [encode(one), encode(other)]
    assert written[0]["spec"]["byName"] is written[1]["spec"]["byName"]
    assert written[0]["metadata"] is written[1]["metadata"]


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="a bytes has no form in JSON"):
        encode(Whole(metadata=ObjectMeta("w"), spec=Everything(template={"x": b""})))
