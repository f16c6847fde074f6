"""Mutating- and ValidatingWebhookConfigurations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from informers.apimachinery.name_rules import subdomain_faults
from reconcile.embedded.kinds.admission_expressions import ExpressionRules, match_condition_causes
from reconcile.embedded.kinds.admission_matching import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    rule_causes,
)
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill, one_of
from reconcile.embedded.kinds.label_selectors import selector_causes
from reconcile.embedded.kinds.webhook_clients import client_causes, knows_review, review_version_causes
from reconcile.embedded.kubectl.printing import AGE, NAMES, count
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_duplicate, value_invalid, value_required
from reconcile.embedded.served import CellColumn

_MUTATING: Final = "MutatingWebhookConfiguration"
_WEBHOOK: Final = {
    "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
    "timeoutSeconds": 10, "rules": [{"scope": "*"}],
}  # fmt: skip
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun", "Some", "Unknown")
_HARMLESS: Final = ("None", "NoneOnDryRun")
_SELECTORS: Final = ("namespaceSelector", "objectSelector")
# ValidatingWebhook.timeoutSeconds in validation.go of admissionregistration.
_MAX_TIMEOUT: Final = 30
_LEAST_SEGMENTS: Final = 3


def _default_webhooks(configuration: Object) -> None:
    for webhook in configuration.get("webhooks") or ():
        fill(webhook, _WEBHOOK)
        if configuration["kind"] == _MUTATING:
            fill(webhook, {"reinvocationPolicy": "Never"})
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            fill(service, {"port": 443})


@frozen
class _Strictness:
    """What is asked of webhooks: an update may keep the faults of the stored ones."""

    same_conditions: bool
    side_effects: Sequence[str]
    known_review: bool
    unique_names: bool
    any_value: bool

    @classmethod
    def towards(
        cls, webhooks: Sequence[Mapping[str, Any]], old: Sequence[Mapping[str, Any]]
    ) -> "_Strictness":
        names = [webhook.get("name") for webhook in old]
        harmless = all(webhook.get("sideEffects") in _HARMLESS for webhook in old)
        return cls(
            _conditions(webhooks) == _conditions(old),
            _HARMLESS if harmless else _SIDE_EFFECTS,
            all(knows_review(webhook.get("admissionReviewVersions") or ("v1",)) for webhook in old),
            len(set(names)) == len(names),
            any(any(selector_causes(webhook.get(field), "")) for webhook in old for field in _SELECTORS),
        )


_STRICT: Final = _Strictness(False, _HARMLESS, True, True, False)


def _conditions(webhooks: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [webhook.get("matchConditions") or [] for webhook in webhooks]


def _validate_webhooks(configuration: Object, old: Object | None) -> Iterator[FieldCause]:
    webhooks = configuration.get("webhooks") or ()
    strictness = _STRICT if old is None else _Strictness.towards(webhooks, old.get("webhooks") or ())
    seen: set[str] = set()
    for index, webhook in enumerate(webhooks):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        yield from _name_causes(name, f"{path}.name")
        yield from _webhook_causes(webhook, path, strictness, mutating=configuration["kind"] == _MUTATING)
        versions = webhook.get("admissionReviewVersions") or ()
        yield from review_version_causes(
            versions, f"{path}.admissionReviewVersions", known=strictness.known_review
        )
        if name and name in seen and strictness.unique_names:
            yield value_duplicate(f"{path}.name", name)
        seen.add(name)


def _name_causes(name: str, path: str) -> Iterator[FieldCause]:
    if not name:
        yield value_required(path)
    elif faults := subdomain_faults(name):
        yield value_invalid(path, name, ",".join(faults))
    elif name.count(".") < _LEAST_SEGMENTS - 1:
        why = "should be a domain with at least three segments separated by dots"
        yield value_invalid(path, name, why)


def _webhook_causes(
    webhook: Mapping[str, Any], path: str, strictness: _Strictness, *, mutating: bool
) -> Iterator[FieldCause]:
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from rule_causes(rule, f"{path}.rules[{index}]")
    yield from one_of(webhook, f"{path}.failurePolicy", FAILURE_POLICIES)
    yield from one_of(webhook, f"{path}.matchPolicy", MATCH_POLICIES)
    if webhook.get("sideEffects") is None:
        listed = ", ".join(strictness.side_effects)
        yield value_required(f"{path}.sideEffects", f"must specify one of {listed}")
    else:
        yield from one_of(webhook, f"{path}.sideEffects", strictness.side_effects)
    if not 1 <= webhook["timeoutSeconds"] <= _MAX_TIMEOUT:
        why = f"the timeout value must be between 1 and {_MAX_TIMEOUT} seconds"
        yield value_invalid(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], why)
    for field in _SELECTORS:
        yield from selector_causes(webhook.get(field), f"{path}.{field}", any_value=strictness.any_value)
    if mutating:
        yield from one_of(webhook, f"{path}.reinvocationPolicy", REINVOCATION_POLICIES)
    yield from client_causes(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    if not strictness.same_conditions:
        conditions = webhook.get("matchConditions") or ()
        yield from match_condition_causes(conditions, f"{path}.matchConditions", ExpressionRules())


KINDS: Final = tuple(
    BuiltInKind(
        "admissionregistration.k8s.io", name, categories=("api-extensions",), namespaced=False,
        has_generation=True, unconditional_update=False,
        defaults=_default_webhooks,
        names_missing_fields=True,
        checks=_validate_webhooks,
        columns=(NAMES, CellColumn("Webhooks", count("webhooks"), "integer"), AGE),
    )
    for name in (_MUTATING, "ValidatingWebhookConfiguration")
)  # fmt: skip
