"""Several versions of one kind: which are served side by side, and which are refused."""

from typing import Annotated, Any

import pytest
from attrs import frozen

from reconcile import Object, resource
from reconcile.models import ExtraFields, Schema, definition_of


@frozen
class Spec:
    image: str
    replicas: int = 1


@frozen
class OtherType:
    image: int
    replicas: int = 1


@frozen
class OtherDefault:
    image: str
    replicas: int = 3


@frozen
class Shorter:
    image: Annotated[str, Schema(max_length=9)]
    replicas: int = 1


@frozen
class Stricter:
    image: str
    owner: str
    replicas: int = 1


@frozen
class Lossy:
    image: str
    colour: str | None = None


@frozen
class AnySpec(ExtraFields):
    image: str


@frozen
class AnyOtherSpec(ExtraFields):
    image: str
    owner: str | None = None


def door(version: str, spec: type[Any], **options: Any) -> type[Object]:
    """A version of a kind."""
    made = type("Door", (Object,), {"__annotations__": {"spec": spec}})
    return resource(f"example.com/{version}", **options)(made)


DOOR = door("v1", Spec)


def test_versions_with_the_same_fields_are_served_side_by_side() -> None:
    versions = definition_of(DOOR, door("v1alpha1", Spec, deprecated="use v1"))["spec"]["versions"]
    assert [(v["name"], v["served"], v["storage"]) for v in versions] == [
        ("v1", True, True),
        ("v1alpha1", True, False),
    ]
    assert versions[1]["deprecationWarning"] == "use v1"


@pytest.mark.rule("model-versions")
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            door("v1beta1", OtherType),
            r"v1 and v1beta1 cannot be served side by side without conversion: \.spec\.image has another",
        ),
        (
            door("v1beta2", Stricter),
            r"only v1beta2 has \.spec\.owner, which a write in v1 loses: give both versions",
        ),
        (
            door("v1alpha2", Lossy),
            r"only v1 has \.spec\.replicas, which a write in v1alpha2 loses: give both versions",
        ),
        (door("v1beta3", Shorter), r"\.spec\.image has another maxLength"),
        (door("v1alpha1", Lossy, kind="Window"), r"is not a version of"),
    ],
)
def test_versions_that_need_conversion_are_refused(other: type[Object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        definition_of(DOOR, other)


def test_versions_may_have_different_defaults() -> None:
    versions = definition_of(DOOR, door("v2alpha1", OtherDefault))["spec"]["versions"]
    specs = [v["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] for v in versions]
    assert [spec["replicas"]["default"] for spec in specs] == [1, 3]


def test_a_part_that_preserves_unknown_fields_loses_none() -> None:
    versions = definition_of(door("v1", AnySpec), door("v1beta1", AnyOtherSpec))["spec"]["versions"]
    assert len(versions) == 2


def test_a_version_served_by_others_is_included_unchanged() -> None:
    versions = definition_of(DOOR, door("v1beta2", Stricter, as_installed=True))["spec"]["versions"]
    assert versions[1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] == ["image", "owner"]
