"""Several versions of one kind: which are served side by side, and which are refused."""

from typing import Annotated

import pytest
from attrs import frozen

from reconcile import Object, resource
from reconcile.models import ExtraFields, Schema, definition_of


@frozen
class OldSpec:
    image: str
    colour: str | None = None


@frozen
class NewSpec:
    image: str
    replicas: int = 1


@frozen
class OtherSpec:
    image: int
    replicas: int = 1


@frozen
class StricterSpec:
    image: str
    owner: str
    replicas: int = 1


@resource("example.com/v1alpha1", kind="Door", deprecated="use v1")
class OldDoor(Object):
    spec: "NewSpec"


@frozen
class SparerSpec:
    image: str
    replicas: int = 3


@resource("example.com/v2alpha1", kind="Door")
class SparerDoor(Object):
    spec: SparerSpec


@resource("example.com/v1alpha2", kind="Door")
class LossyDoor(Object):
    spec: OldSpec


@resource("example.com/v1", kind="Door")
class Door(Object):
    spec: NewSpec


@resource("example.com/v1beta1", kind="Door")
class OtherDoor(Object):
    spec: OtherSpec


@resource("example.com/v1beta2", kind="Door")
class StricterDoor(Object):
    spec: StricterSpec


@frozen
class ShortSpec:
    image: Annotated[str, Schema(max_length=9)]
    replicas: int = 1


@resource("example.com/v1beta3", kind="Door")
class ShortDoor(Object):
    spec: ShortSpec


@resource("example.com/v1beta2", kind="Door", as_installed=True)
class InstalledDoor(Object):
    spec: StricterSpec


@resource("example.com/v1alpha1", kind="Window", plural="windows")
class Window(Object):
    spec: OldSpec


def test_versions_with_the_same_fields_are_served_side_by_side() -> None:
    versions = definition_of(Door, OldDoor)["spec"]["versions"]
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
            OtherDoor,
            r"v1 and v1beta1 cannot be served side by side without conversion: \.spec\.image has another",
        ),
        (StricterDoor, r"only v1beta2 has \.spec\.owner, which a write in v1 loses: give both versions"),
        (LossyDoor, r"only v1 has \.spec\.replicas, which a write in v1alpha2 loses: give both versions"),
        (ShortDoor, r"\.spec\.image has another maxLength"),
        (Window, r"is no version of"),
    ],
)
def test_versions_that_need_conversion_are_refused(other: type[Object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        definition_of(Door, other)


def test_versions_may_have_other_defaults() -> None:
    versions = definition_of(Door, SparerDoor)["spec"]["versions"]
    specs = [v["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] for v in versions]
    assert [spec["replicas"]["default"] for spec in specs] == [1, 3]


@frozen
class AnySpec(ExtraFields):
    image: str


@frozen
class AnyOtherSpec(ExtraFields):
    image: str
    owner: str | None = None


@resource("example.com/v1", kind="Hatch")
class Hatch(Object):
    spec: AnySpec


@resource("example.com/v1beta1", kind="Hatch")
class OtherHatch(Object):
    spec: AnyOtherSpec


def test_a_place_that_keeps_unknown_fields_loses_none() -> None:
    assert len(definition_of(Hatch, OtherHatch)["spec"]["versions"]) == 2


def test_a_version_that_others_serve_as_it_is_is_taken_as_it_is() -> None:
    versions = definition_of(Door, InstalledDoor)["spec"]["versions"]
    assert versions[1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] == ["image", "owner"]
