"""Where each rule about the objects of an operator is enforced, and why no weaker mechanism suffices. Pure.

From the weakest to the strongest: the schema of a definition, CEL in the definition, CEL in a policy, CEL in
a configuration, which chooses what a webhook is called for, and the webhook.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from informers.functions import name_of
from reconcile.controller.admission import Admission
from reconcile.controller.declaration import Controller
from reconcile.models import LabelSelector, definition_of, kind_of
from reconcile.models.versions import families, is_custom
from reconcile.webhooks.routes import admissions_of

SCHEMA: Final = "schema"
CEL: Final = "CEL in the definition"
POLICY: Final = "policy"
CONFIGURATION: Final = "configuration of the webhook"
WEBHOOK: Final = "webhook"

_RULES: Final = "x-kubernetes-validations"
_SHAPE: Final = frozenset({"description", "properties", "items", "additionalProperties", "type", _RULES})
_BETWEEN_FIELDS: Final = "a schema sees one field at a time"
_NO_DELETIONS: Final = "rules of a definition are not asked about deletions"
_NO_DEFINITION: Final = "the definition of a kind of Kubernetes cannot be changed"


@frozen
class Row:
    kind: str
    rule: str
    place: str
    reason: str
    """Why a weaker mechanism does not suffice; empty for the weakest."""


def rows_of(controllers: Iterable[Controller[Any]]) -> Sequence[Row]:
    """The rules for the kinds of controllers and of their admissions. Raises TypeError as `definition_of`."""
    controllers = list(controllers)
    admissions = admissions_of(controllers)
    kinds = [*(one.kind for one in controllers), *(admission.kind for admission in admissions)]
    rows = [row for versions in families(kinds) for model in versions for row in _of_definition(model)]
    return [*rows, *(row for admission in admissions for row in _of_admission(admission))]


def _of_definition(model: type[Any]) -> Iterator[Row]:
    (version,) = definition_of(model)["spec"]["versions"]
    resource = kind_of(model).resource
    yield from _of_schema(f"{resource.kind} {resource.version}", "", version["schema"]["openAPIV3Schema"])


def _of_schema(kind: str, path: str, schema: Mapping[str, Any]) -> Iterator[Row]:
    for word, value in schema.items():
        if word == "required":
            for name in value:
                yield Row(kind, f"{path}.{name} is required", SCHEMA, "")
        elif word not in _SHAPE:
            yield Row(kind, f"{path or '.'} {word} {_short(value)}", SCHEMA, "")
    for rule in schema.get(_RULES, ()):
        reason = "a schema does not see the stored object" if "oldSelf" in rule["rule"] else _BETWEEN_FIELDS
        yield Row(kind, f"{path or '.'} {_short(rule['rule'])}", CEL, reason)
    for name, inner in schema.get("properties", {}).items():
        yield from _of_schema(kind, f"{path}.{name}", inner)
    for word, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(word), Mapping):
            yield from _of_schema(kind, f"{path}{mark}", schema[word])


def _of_admission(admission: Admission[Any]) -> Iterator[Row]:
    resource = kind_of(admission.kind).resource
    kind = f"{resource.kind} {resource.version}"
    own = is_custom(admission.kind)
    if admission.defaults is not None:
        reason = "a default of a schema is a constant; this one is made by Python" if own else _NO_DEFINITION
        yield Row(kind, f"defaults={name_of(admission.defaults)}", WEBHOOK, reason)
    if admission.refuses is not None:
        yield Row(kind, f"refuses={name_of(admission.refuses)}", WEBHOOK, _why_refuses(admission, own))
    for rule in admission.rules:
        yield Row(kind, f"rules={_short(rule.rule)}", POLICY, _why_rules(admission, own))
    calls = admission.defaults is not None or admission.refuses is not None
    place, chooses = (CONFIGURATION, "the calls of a webhook") if calls else (POLICY, "what a policy judges")
    reason = f"it chooses {chooses}, which a definition does not know"
    for name, expression in admission.conditions.items():
        yield Row(kind, f"conditions={name}: {_short(expression)}", place, reason)
    for word, selector in (("labels", admission.labels), ("namespaces", admission.namespaces)):
        if isinstance(selector, LabelSelector):
            yield Row(kind, f"{word}={selector.text()}", place, reason)


def _why_rules(admission: Admission[Any], own: bool) -> str:
    if not own:
        return _NO_DEFINITION
    if "DELETE" in admission.operations:
        return _NO_DELETIONS
    return "a definition sees neither who asks, nor labels, nor the namespace"


def _why_refuses(admission: Admission[Any], own: bool) -> str:
    if not own:
        return _NO_DEFINITION
    if "DELETE" in admission.operations:
        return _NO_DELETIONS
    return (
        "it is Python, and may ask who writes; what needs only the object and the stored one can be a Rule "
        "of its class"
    )


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
