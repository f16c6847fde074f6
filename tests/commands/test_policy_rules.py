"""`reconcile check`: rules of an Admission that do not compile, or do not fit their kind."""

from typing import Any

import pytest

from reconcile import Object, Unstructured, resource
from reconcile.commands import policy_rules
from reconcile.commands.policy_rules import policy_findings, ruled_admissions
from reconcile.kinds import Pod
from reconcile.models import Rule
from reconcile.webhooks import Admission
from tests.commands.test_check_command import Run, run
from tests.webhooks.boxes import Box

__all__ = ["run"]

OPERATOR = "shop.example.com"
RULED = """
from reconcile import Controller
from reconcile.kinds import Pod
from reconcile.webhooks import Admission

pods = Admission(Pod, rules={rules!r}, operator="shop.example.com")
"""


@resource("other.example.com/v1")
class Parcel(Unstructured): ...


def found(*rules: Rule | str, kind: type[Object] = Pod, **options: Any) -> list[str]:
    admission = Admission(kind, rules=rules, operator=OPERATOR, **options)
    return [str(finding) for finding in policy_findings(admission)]


def test_rules_that_fit_have_no_fault() -> None:
    rule = Rule("!has(object.spec.hostNetwork) || request.dryRun", message_expression="'no ' + request.name")
    assert found(rule, "object.metadata.labels['a'] == 'b'") == []
    assert found("object.spec.size > 1 && request.dryRun", kind=Box) == []
    assert found("object.anything > 1", kind=Parcel) == []


def test_a_rule_that_does_not_compile_is_shown_with_the_position() -> None:
    (fault,) = found("true", "object.spec. > 1")
    assert fault.startswith(
        "Pod Admission.rules[1]: an API server refuses it: 'object.spec. > 1': "
        "compilation failed: ERROR: <input>:1:14: Syntax error"
    )


def test_each_fault_is_found() -> None:
    assert [
        line.partition(": an API")[0] for line in found("1", Rule("true", message_expression="1"), "x")
    ] == [
        "Pod Admission.rules[0]",
        "Pod Admission.rules[1].message_expression",
        "Pod Admission.rules[2]",
    ]
    (fault,) = found("true", conditions={"named": "object."})
    assert fault.startswith("Pod Admission.conditions['named']: an API server refuses it: 'object.': ")


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (Pod, "object.spec.hostNetwrk != true", "1:12: undefined field 'hostNetwrk'"),
        (Pod, "object.spec.hostNetwork != 'x'", "_!=_"),
        (Box, "object.spec.sizes > 1 || request.dryRun", "undefined field 'sizes'"),
    ],
)
def test_a_rule_that_does_not_fit_the_schema_of_its_kind_is_found(kind: Any, text: str, problem: str) -> None:
    (fault,) = found(text, kind=kind)
    assert f"{text!r}: ERROR: <input>:1:" in fault
    assert problem in fault


def test_without_the_library_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_rules, "can_compile", lambda: False)
    assert found("object.") == []


def test_admissions_are_found_by_themselves_and_in_controllers() -> None:
    first = Admission(Pod, rules="true", operator=OPERATOR)
    assert ruled_admissions([first, 1, first, Box]) == [first]


def test_a_module_without_kinds_is_checked_for_its_rules(run: Run) -> None:
    assert run("check", RULED.format(rules="object.spec.hostPID != true"))[0] == 0
    status, said = run("check", RULED.format(rules="object.spec.hostPit != true"))
    assert status == 1
    assert "Pod Admission.rules[0]: " in said
