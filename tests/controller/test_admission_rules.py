"""Rules of an Admission: what is refused where they are declared."""

import subprocess
import sys
from typing import Any

import pytest

from reconcile import LabelSelector, Object, Unstructured, resource
from reconcile.controller.admission_rules import fits_definition
from reconcile.kinds import Pod
from reconcile.models import Rule
from reconcile.webhooks import Admission


@resource("shop.example.com/v1")
class Crate(Object): ...


@resource("shop.example.com/v1beta1", kind="Crate", as_installed=True)
class CrateAsInstalled(Object): ...


@resource("other.example.com/v1", kind="Parcel")
class Parcel(Unstructured): ...


SIZE = "object.spec.size < 10"


@pytest.mark.parametrize(
    "text",
    [
        SIZE,
        "true",
        "oldObject == null || object.spec.size == oldObject.spec.size",
        "has(object.spec.size) && object.metadata.name.startsWith('a')",
        "object.spec.?request.orValue('') != 'request'  // request",
        "object.spec.items.all(item, item.object != r'\\')",
        '"""request""" != object.spec.text',
    ],
)
def test_a_rule_that_a_class_can_hold_is_refused_with_the_next_step(text: str) -> None:
    assert fits_definition([text])
    with pytest.raises(
        ValueError, match=r"@resource\(\.\.\., rules=\[Rule\(\.\.\.\)\]\), with self for object"
    ):
        Admission(Crate, rules=text)


@pytest.mark.parametrize(
    "text",
    [
        "object.metadata.labels.size() > 0",
        "has(oldObject.metadata.?annotations)",
        "object == oldObject",
        "object.spec.size < 10 || request.dryRun",
        "namespaceObject.metadata.name != 'a'",
        "authorizer.requestResource.check('x').allowed()",
        "object['spec'].size < 10",
        "object",
    ],
)
def test_a_rule_that_no_class_can_hold_is_accepted(text: str) -> None:
    assert not fits_definition([text])
    Admission(Crate, rules=[text])


@pytest.mark.parametrize(
    "options",
    [
        {"operations": ("CREATE", "DELETE")},
        {"labels": LabelSelector({"a": "b"})},
        {"namespaces": LabelSelector({"a": "b"})},
        {"conditions": {"asked": "request.name != 'a'"}},
        {"operator": "elsewhere.example.com"},
    ],
    ids=str,
)
def test_an_option_that_a_class_does_not_have_makes_a_rule_one_of_an_admission(options: Any) -> None:
    Admission(Crate, rules=[Rule(SIZE)], **options)


def test_kinds_without_a_definition_of_their_own_may_have_any_rule() -> None:
    Admission(Pod, rules=SIZE, operator="shop.example.com")
    Admission(CrateAsInstalled, rules=SIZE)
    Admission(Parcel, rules=SIZE)


def test_a_message_that_asks_for_the_requester_needs_an_admission_too() -> None:
    Admission(Crate, rules=Rule(SIZE, message_expression="request.userInfo.username"))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (Rule(" "), "an expression is empty"),
        (Rule(SIZE, field_path=".spec.size"), "field_path= is for rules of a class"),
        (Rule(SIZE, optional_old_self=True), "optional_old_self= is for rules of a class"),
        (Rule(SIZE, reason="FieldValueInvalid"), "'FieldValueInvalid' is not one of Forbidden, Invalid"),
        (Rule(SIZE, message="a\nb"), "message= expected one line"),
        (Rule(SIZE, message=" "), "message= expected one line"),
    ],
)
def test_what_a_policy_cannot_have_is_refused(rule: Rule, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Admission(Pod, rules=[rule], operator="shop.example.com")


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a Rule or a text in CEL, got int"):
        Admission(Crate, rules=[1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="give defaults=, refuses= or rules="):
        Admission(Crate)


def test_declaring_rules_imports_no_cel_library() -> None:
    code = (
        "import sys; from reconcile.kinds import Pod; from reconcile.webhooks import Admission;"
        "Admission(Pod, rules='true', operator='shop.example.com');"
        "import reconcile.webhooks.policies; assert 'cel_expr_python' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
