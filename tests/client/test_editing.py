"""Drafts: what was set is in the object that they become, and all else is as it was."""

from typing import Any

import pytest
from attrs import field, frozen

from reconcile import ObjectMeta
from reconcile.client.editing import Draft, finished
from reconcile.kinds import Deployment, DeploymentSpec, LabelSelector
from reconcile.models import encode


@frozen
class Part:
    name: str
    tags: tuple[str, ...] = ()


@frozen
class Whole:
    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = field(factory=dict)
    names: list[str] = field(factory=list)
    size: int = 1

    @property
    def first(self) -> str:
        return self.parts[0].name


def whole() -> Whole:
    return Whole((Part("a", ("x",)), Part("b")), {"c": Part("c")}, ["n"])


def test_changes_at_any_depth_are_in_the_result_and_not_in_the_original() -> None:
    before = whole()
    draft: Any = Draft(before)
    draft.size = 2
    draft.parts[0].tags.append("y")
    draft.parts.append(Part("d"))
    draft.by_name["c"].name = "changed"
    draft.by_name["e"] = Part("e")
    draft.names.append("m")
    assert finished(draft) == Whole(
        (Part("a", ("x", "y")), Part("b"), Part("d")), {"c": Part("changed"), "e": Part("e")}, ["n", "m"], 2
    )
    assert before == whole()
    assert repr(draft) == f"Draft({finished(draft)!r})"


def test_a_draft_that_was_only_read_becomes_an_equal_object_and_an_untouched_one_the_same() -> None:
    before = whole()
    draft: Any = Draft(before)
    assert finished(draft) is before
    assert draft.first == "a"
    assert finished(draft) is before
    assert draft.names == ["n"]
    assert draft.parts[1].name == "b"
    assert finished(draft) == before
    assert draft.names is draft.names


def test_a_field_that_the_model_does_not_have_cannot_be_set() -> None:
    draft: Any = Draft(whole())
    with pytest.raises(AttributeError, match=r"^Whole has no field 'sice'$"):
        draft.sice = 1
    with pytest.raises(AttributeError):
        draft.sice  # noqa: B018


def test_free_form_fields_are_edited_like_the_json_they_are() -> None:
    template = {"spec": {"containers": [{"name": "c", "args": ["x"]}]}}
    before = Deployment(
        metadata=ObjectMeta("a", "b"), spec=DeploymentSpec(LabelSelector({"a": "b"}), template, 3)
    )
    draft: Any = Draft(before)
    draft.spec.template.spec.containers[0].args += ("y",)
    draft.spec.template.spec.extra["hostNetwork"] = True
    draft.metadata.labels["l"] = "v"
    after = encode(finished(draft))
    pod = {"containers": [{"name": "c", "args": ["x", "y"]}], "hostNetwork": True}
    assert after["spec"]["template"]["spec"] == pod
    assert after["metadata"]["labels"] == {"l": "v"}
    assert encode(before)["spec"]["template"] == template
