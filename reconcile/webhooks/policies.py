"""The policies with which API servers evaluate the rules of admissions. Pure: from admissions to objects.

As safe by default as webhooks: for kinds of Kubernetes the operator's own writes and namespace are left out,
and an update is not judged that changes nothing but metadata which must always be removable.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from reconcile.controller.admission import Admission
from reconcile.models import Rule, kind_of
from reconcile.models.versions import is_custom
from reconcile.webhooks.configurations import (
    API_VERSION,
    NOT_THE_OPERATOR,
    Document,
    Installed,
    matching,
)
from reconcile.webhooks.routes import numbered

RULES: Final = "rules"
"""What the names of policies begin with, as those of webhooks with the function's name."""
POLICY: Final = "ValidatingAdmissionPolicy"
NOT_A_NO_OP: Final = "not-a-no-op"
"""The name of the match condition that leaves out the updates which `is_no_op` of webhooks leaves out."""

# What `is_no_op` compares: all but metadata and status, and of the metadata labels and annotations. Optional
# values cost least, since large objects must not exceed what an expression may cost.
_JUDGED: Final = '!(k in ["metadata", "status"])'
_HELD: Final = "(k in {0}.metadata ? {0}.metadata[k] : {{}})"
_CHANGES: Final = " || ".join(
    (
        'request.operation != "UPDATE"',
        f"object.exists(k, {_JUDGED} && oldObject[?k] != optional.of(object[k]))",
        f"oldObject.exists(k, {_JUDGED} && !object[?k].hasValue())",
        f'["labels", "annotations"].exists(k, {_HELD.format("object")} != {_HELD.format("oldObject")})',
    )
)


def policies_of(admissions: Iterable[Admission[Any]], installed: Installed) -> Sequence[Document]:
    """A policy and its binding for each admission with rules, named `rules.<plural>.<operator>`.

    Raises ValueError for two policies with one name.
    """
    known: dict[str, Admission[Any]] = {}
    found: list[Document] = []
    for plural, admission in numbered(admissions):
        if not admission.rules:
            continue
        name = policy_name(plural, admission)
        if known.setdefault(name, admission) is not admission:
            raise ValueError(
                f"the policies for {kind_of(known[name].kind).resource} and for "
                f"{kind_of(admission.kind).resource} are both named {name}: "
                "give one of the two Admissions another operator="
            )
        found += [policy_of(name, admission, installed), _binding(name, installed)]
    return found


def policy_name(plural: str, admission: Admission[Any]) -> str:
    """The name of a policy and its binding; `plural` is that of `numbered`."""
    return f"{RULES}.{plural}.{admission.operator}"


def policy_of(name: str, admission: Admission[Any], installed: Installed) -> Document:
    """The policy of an admission with rules; a fault of `rules[i]` is one of its `spec.validations[i]`."""
    return {
        "apiVersion": API_VERSION,
        "kind": POLICY,
        "metadata": {"name": name, **installed.metadata},
        "spec": {
            "failurePolicy": "Fail" if admission.is_required else "Ignore",
            "matchConstraints": matching("resourceRules", admission, admission.operations, installed),
            **({"matchConditions": conditions} if (conditions := _conditions(admission, installed)) else {}),
            "validations": [_validation(rule) for rule in admission.rules],
        },
    }


def _binding(name: str, installed: Installed) -> Document:
    return {
        "apiVersion": API_VERSION,
        "kind": f"{POLICY}Binding",
        "metadata": {"name": name, **installed.metadata},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


def _conditions(admission: Admission[Any], installed: Installed) -> list[Document]:
    conditions = dict[str, str]()
    if installed.user and not is_custom(admission.kind):
        conditions[NOT_THE_OPERATOR] = f'request.userInfo.username != "{installed.user}"'
    if "UPDATE" in admission.operations:
        conditions[NOT_A_NO_OP] = _CHANGES
    conditions |= admission.conditions
    return [{"name": name, "expression": expression} for name, expression in conditions.items()]


def _validation(rule: Rule) -> Document:
    said = {"message": rule.message, "messageExpression": rule.message_expression, "reason": rule.reason}
    return {"expression": rule.rule, **{name: text for name, text in said.items() if text}}
