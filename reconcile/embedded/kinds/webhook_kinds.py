"""Mutating- and ValidatingWebhookConfigurations, which are stored but not called."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill, one_of
from reconcile.embedded.kubectl.printing import AGE, NAMES, count
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_duplicate, value_invalid, value_required
from reconcile.embedded.served import CellColumn

_WEBHOOKS_UNCALLED = "webhook configurations are stored and not called by the embedded server"


_WEBHOOK: Final = {
    "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
    "timeoutSeconds": 10,
}  # fmt: skip


def _default_webhooks(configuration: Object) -> None:
    for webhook in configuration.get("webhooks") or ():
        fill(webhook, _WEBHOOK)
        if configuration["kind"] == "MutatingWebhookConfiguration":
            fill(webhook, {"reinvocationPolicy": "Never"})
        fill(webhook, {"rules": [{"scope": "*"}]})
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            fill(service, {"port": 443})


def _validate_webhooks(configuration: Object, old: Object | None) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        if name.count(".") < 2:
            why = "should be a domain with at least three segments separated by dots"
            yield value_invalid(f"{path}.name", name, why)
        if name in seen:
            yield value_duplicate(f"{path}.name", name)
        seen.add(name)
        config = webhook.get("clientConfig") or {}
        if bool(config.get("url")) == bool(config.get("service")):
            yield value_required(f"{path}.clientConfig", "exactly one of url or service is required")
        yield from one_of(webhook, f"{path}.sideEffects", ("None", "NoneOnDryRun"))


def _warn_of_webhooks(configuration: Object, old: Object | None) -> list[str]:
    return [f"{configuration['metadata'].get('name', '')}: {_WEBHOOKS_UNCALLED}"]


KINDS: Final = tuple(
    BuiltInKind(
        "admissionregistration.k8s.io", name, categories=("api-extensions",), namespaced=False,
        has_generation=True, unconditional_update=False,
        defaults=_default_webhooks,
        checks=_validate_webhooks,
        warnings=_warn_of_webhooks,
        columns=(NAMES, CellColumn("Webhooks", count("webhooks"), "integer"), AGE),
    )
    for name in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)  # fmt: skip
