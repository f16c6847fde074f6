"""Mutating- and ValidatingWebhookConfigurations, which are stored and not called."""

from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, default
from reconcile.embedded.kubectl.printing import AGE, NAMES, count
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_not_supported, value_required
from reconcile.embedded.served import CellColumn

_WEBHOOKS_UNCALLED = "webhook configurations are stored and not called by the embedded server"


def _prepare_webhooks(configuration: Object, old: Object | None) -> None:
    for webhook in configuration.get("webhooks") or ():
        default(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        if configuration["kind"] == "MutatingWebhookConfiguration":
            default(webhook, reinvocationPolicy="Never")
        for rule in webhook.get("rules") or ():
            default(rule, scope="*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            default(service, port=443)


def _validate_webhooks(configuration: Object, old: Object | None) -> list[FieldCause]:
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        if name.count(".") < 2:
            why = "should be a domain with at least three segments separated by dots"
            causes.append(value_invalid(f"{path}.name", name, why))
        if name in seen:
            causes.append(FieldCause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name"))
        seen.add(name)
        config = webhook.get("clientConfig") or {}
        if bool(config.get("url")) == bool(config.get("service")):
            why = "exactly one of url or service is required"
            causes.append(value_required(f"{path}.clientConfig", why))
        effects = webhook.get("sideEffects")
        if effects not in ("None", "NoneOnDryRun"):
            supported = ("None", "NoneOnDryRun")
            causes.append(value_not_supported(f"{path}.sideEffects", effects or "", supported))
    return causes


def _warn_of_webhooks(configuration: Object) -> list[str]:
    """Warn that webhooks are not called."""
    return [f"{configuration['metadata'].get('name', '')}: {_WEBHOOKS_UNCALLED}"]


KINDS: Final = tuple(
    BuiltInKind(
        "admissionregistration.k8s.io", name, categories=("api-extensions",), namespaced=False,
        has_generation=True, unconditional_update=False,
        defaults=_prepare_webhooks,
        checks=_validate_webhooks,
        warnings=_warn_of_webhooks,
        columns=(NAMES, CellColumn("Webhooks", count("webhooks"), "integer"), AGE),
    )
    for name in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)  # fmt: skip
