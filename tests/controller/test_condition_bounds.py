"""A condition has the bounds of metav1.Condition: where it is said, and in the schema that servers check."""

import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Context, Controller, ObjectMeta
from reconcile.conditions import checked_condition, reason_for
from reconcile.models import definition_of
from reconcile.testing import FakeClient, run_once
from tests.helpers.managers import Toy

pytestmark = pytest.mark.rule("condition-5")

TOY = Toy(metadata=ObjectMeta("a", "default"))
NOW = "2026-01-02T03:04:05Z"


def test_the_schema_is_that_of_metav1_condition() -> None:
    schema = definition_of(Toy)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    items = schema["properties"]["status"]["properties"]["conditions"]["items"]
    bounds = {
        name: {word: value for word, value in member.items() if word not in ("type", "description")}
        for name, member in items["properties"].items()
    }
    assert sorted(items["required"]) == ["lastTransitionTime", "message", "reason", "status", "type"]
    assert bounds == {
        "type": {
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {"enum": ["True", "False", "Unknown"]},
        "reason": {"minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "message": {"maxLength": 32768},
        "lastTransitionTime": {"format": "date-time"},
        "observedGeneration": {"format": "int64", "minimum": 0},
    }


BAD = {
    "no type": ("", "True", "Here", r"condition type: expected 1 to 316 characters, got 0"),
    "long type": ("a" * 317, "True", "Here", r"condition type: expected 1 to 316 characters, got 317"),
    "odd type": ("Not Ready", "True", "Here", r"condition type: 'Not Ready' does not match"),
    "no reason": (
        "Ready",
        "True",
        "",
        r"reason of Ready: expected 1 to 1024 characters, got 0, such as Pods",
    ),
    "long reason": ("Ready", "True", "r" * 1025, r"reason of Ready: expected 1 to 1024 characters, got 1025"),
    "sentence": ("Ready", "True", "it is here", r"reason of Ready: 'it is here' does not match \^\[A-Za-z\]"),
    "line break": ("Ready", "True", "Here\n", r"reason of Ready: 'Here\\n' does not match"),
    "status": ("Ready", "Maybe", "Here", r"condition Ready: expected True, False or Unknown as its status"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_condition_out_of_bounds_fails_the_run_with_the_bound(case: str) -> None:
    name, status, reason, message = BAD[case]

    async def keep(ctx: Context[Toy]) -> None:
        ctx.condition(name, cast(Any, status), reason=reason)

    done = await run_once(Controller(Toy, keep), TOY, FakeClient(TOY))
    assert isinstance(done.error, ValueError)
    assert re.search(message, str(done.error))


async def test_a_message_that_is_too_long_is_truncated_and_the_status_written() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        ctx.condition("Ready", False, reason="Failed", message="é" * 40_000)

    client = FakeClient(TOY)
    await run_once(Controller(Toy, keep), TOY, client)
    (condition,) = (await client.get(Toy, "a", "default")).status.conditions
    assert condition.message == "é" * 32_767 + "…"
    assert (await run_once(Controller(Toy, keep), TOY, client)).writes == []


class _Refused(Exception):
    """An error whose name is not a reason as it stands."""


async def test_an_error_of_any_name_and_text_becomes_a_condition() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        with ctx.false_on_failure("Synced", _Refused):
            raise _Refused("\ud800" + "x" * 40_000)

    client = FakeClient(TOY)
    assert isinstance((await run_once(Controller(Toy, keep), TOY, client)).error, _Refused)
    (condition,) = (await client.get(Toy, "a", "default")).status.conditions
    assert (condition.type, condition.reason, len(condition.message)) == ("Synced", "Refused", 32_768)


@given(st.text(), st.sampled_from(["True", "False", "Unknown"]), st.text(), st.text())
def test_every_accepted_condition_is_accepted_by_the_server_too(
    name: str, status: str, reason: str, message: str
) -> None:
    """And the name of any class gives a reason that is accepted."""
    made = checked_condition(
        "Ready", status, reason_for(type(name.replace("\0", ""), (Exception,), {})()), message
    )
    for kind, word in ((name, "R"), ("Ready", reason)):
        try:
            made = checked_condition(kind, status, word, message)
        except ValueError:
            continue
    toy = {"apiVersion": "toys.example.com/v1", "kind": "Toy", "metadata": {"name": "a"}}
    client = FakeClient()
    client.serve(Toy)
    client.add({**toy, "status": {"conditions": [{**made, "lastTransitionTime": NOW}]}})
