"""Finds what an API server would refuse in the rules of admissions, and where they do not fit their kind."""

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from reconcile.commands.server_rules import can_compile
from reconcile.controller.admission import Admission
from reconcile.controller.declaration import Controller
from reconcile.manager.manager import Manager
from reconcile.models import Unstructured, definition_of, kind_of
from reconcile.models.linting import Finding
from reconcile.models.versions import is_custom
from reconcile.webhooks.configurations import Installed, Url
from reconcile.webhooks.policies import POLICY, policies_of
from reconcile.webhooks.routes import admissions_of

_NOWHERE: Final = Installed(Url("https://localhost"))
_VALIDATION: Final = re.compile(r"spec\.validations\[(\d+)\]\.?(\w*)")
_CONDITION: Final = re.compile(r"spec\.matchConditions\[(\d+)\]")
_OPTIONS: Final = {
    "expression": "",
    "message": ".message",
    "messageExpression": ".message_expression",
    "reason": ".reason",
}


def ruled_admissions(values: Iterable[object]) -> Sequence[Admission[Any]]:
    """The admissions with rules among values of a module, its controllers and its managers included."""
    admissions, controllers = list[Admission[Any]](), list[Controller[Any]]()
    for value in values:
        if isinstance(value, Admission):
            admissions.append(value)
        elif isinstance(value, Controller):
            controllers.append(value)
        elif isinstance(value, Manager):
            controllers.extend(value.controllers)
    found = {id(one): one for one in (*admissions, *admissions_of(controllers)) if one.rules}
    return list(found.values())


def policy_findings(admission: Admission[Any]) -> Iterator[Finding]:
    """Each fault of the rules of an admission, with the expression and the position in it.

    None if rules cannot be compiled here: the extra `embedded` is not installed.
    """
    if not can_compile():
        return
    faults = list(_refusals(admission))
    yield from faults or _misfits(admission)


def _refusals(admission: Admission[Any]) -> Iterator[Finding]:
    """What an API server refuses in the policy."""
    from reconcile.embedded.kinds.admission_policies import KINDS

    (kind,) = (one for one in KINDS if one.name == POLICY)
    policy = copy.deepcopy(dict(policies_of([admission], _NOWHERE)[0]))
    kind.defaults(policy)
    for cause in kind.checks(policy, None):
        path, text = _place(cause.field, policy["spec"])
        problem = " ".join(cause.message.split())
        # The text is quoted once, as it was written.
        said = problem.removeprefix(f"Invalid value: {json.dumps(' '.join(text.split()))}: ")
        quoted = f"{text!r}: " if text else ""
        yield _finding(admission, path, f"an API server refuses it: {quoted}{said}")


def _misfits(admission: Admission[Any]) -> Iterator[Finding]:
    """Where rules that compile do not fit the schema of the kind: an API server only warns of them."""
    from reconcile.embedded.schema.object_meta import OBJECT_META_SCHEMA
    from reconcile.embedded.schema.optional_rules import admission_expressions

    cel, schema = admission_expressions(), _schema(admission)
    if cel is None or schema is None:
        return
    text = {"type": "string"}
    common = {"apiVersion": text, "kind": text, "metadata": OBJECT_META_SCHEMA}
    known = cel.Expressions().typed({**schema, "properties": {**(schema.get("properties") or {}), **common}})
    for index, rule in enumerate(admission.rules):
        for option, expression in (("", rule.rule), (".message_expression", rule.message_expression)):
            try:
                if expression:
                    known.check(expression, "variable")
            except cel.RuleError as error:
                said = str(error).removeprefix("compilation failed: ")
                fault = f"it does not fit the kind: {expression!r}: {said}"
                yield _finding(admission, f"rules[{index}]{option}", fault)


def _schema(admission: Admission[Any]) -> Mapping[str, Any] | None:
    """The schema of the kind; None if it is not known here."""
    if is_custom(admission.kind):
        if issubclass(admission.kind, Unstructured):
            return None
        (version,) = definition_of(admission.kind)["spec"]["versions"]
        schema: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
        return schema
    from reconcile.embedded import ApiServer

    resource = kind_of(admission.kind).resource
    served = ApiServer().resources.get(resource.group, resource.version, resource.plural)
    return None if served is None else served.openapi


def _place(field: str, spec: Mapping[str, Any]) -> tuple[str, str]:
    """Where authors wrote what a path of a policy names, and the expression there."""
    if match := _VALIDATION.match(field):
        index, name = int(match[1]), match[2]
        return f"rules[{index}]{_OPTIONS.get(name, '')}", spec["validations"][index].get(name) or ""
    if match := _CONDITION.match(field):
        condition = spec["matchConditions"][int(match[1])]
        return f"conditions[{condition['name']!r}]", condition["expression"]
    return field, ""


def _finding(admission: Admission[Any], path: str, problem: str) -> Finding:
    return Finding(kind_of(admission.kind).resource.kind, f"Admission.{path}", problem)
