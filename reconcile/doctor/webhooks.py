"""Webhooks: whether something answers where API servers call, and whether they would trust it."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import field, frozen

from reconcile.doctor.declared import Declared
from reconcile.doctor.findings import Finding, Severity
from reconcile.doctor.objects import (
    ClientConfig,
    Definition,
    EndpointSlice,
    Rule,
    Service,
    ServiceReference,
    WebhookConfiguration,
)
from reconcile.webhooks.ca_bundles import decoded_bundle
from reconcile.webhooks.certificate_authority import BadCertificate, certificates_in, valid_until

CHECK: Final = "webhooks"
SOON: Final = datetime.timedelta(days=7)
"""The manager renews a CA months before it ends: one that ends within a week is not renewed any more."""


@frozen
class Call:
    """API servers call `config`, as the object `caller` (`KIND NAME`) says; `required`: or they refuse."""

    caller: str
    webhook: str
    config: ClientConfig
    required: bool

    @property
    def severity(self) -> Severity:
        return "error" if self.required else "warning"

    @property
    def effect(self) -> str:
        return "writes are refused" if self.required else "its checks are skipped"

    @property
    def take_away(self) -> str:
        kind, _, name = self.caller.partition(" ")
        if kind == "CustomResourceDefinition":
            return "start the operator that converts"
        return f"start its operator, or, if that is gone for good, kubectl delete {kind.lower()} {name}"


@frozen
class Backend:
    """A Service and its EndpointSlices; None where there is no Service."""

    service: Service | None
    slices: Sequence[EndpointSlice] = field(factory=tuple)


def calls_of(
    declared: Declared,
    kinds: Sequence[tuple[str, str]],
    configurations: Iterable[WebhookConfiguration],
    definitions: Iterable[Definition],
) -> Sequence[Call]:
    """The webhooks that can block writes of these kinds (group, plural), and those of its own namespace."""
    calls = [
        Call(f"{one.kind} {one.metadata.name}", hook.name, hook.client_config, hook.failure_policy == "Fail")
        for one in configurations
        for hook in one.webhooks or ()
        if _is_own(hook.client_config, declared.namespace) or _matches(hook.rules or (), kinds)
    ]
    for definition in definitions:
        conversion = definition.spec.conversion
        if conversion is not None and conversion.webhook is not None and conversion.strategy == "Webhook":
            caller = f"CustomResourceDefinition {definition.metadata.name}"
            calls.append(Call(caller, "conversion", conversion.webhook.client_config, required=True))
    return calls


def services_of(calls: Iterable[Call]) -> Sequence[tuple[str, str]]:
    """The namespaces and names of the Services that are called, each once."""
    called = [one.config.service for one in calls]
    return list(dict.fromkeys((one.namespace, one.name) for one in called if one is not None))


def check_webhooks(
    calls: Iterable[Call], backends: Mapping[tuple[str, str], Backend], now: datetime.datetime
) -> Iterable[Finding]:
    """One finding for each object that calls, and fault: a configuration may have many webhooks."""
    found: dict[tuple[str, str], Finding] = {}
    for call in calls:
        for finding in [*_unanswered(call, backends), *_untrusted(call, now)]:
            found.setdefault((finding.subject, finding.what), finding)
    return found.values()


def _unanswered(call: Call, backends: Mapping[tuple[str, str], Backend]) -> Iterable[Finding]:
    service = call.config.service
    if service is None:
        return
    backend = backends[service.namespace, service.name]
    if problem := _problem(service, backend):
        what = f"calls the Service {service.namespace}/{service.name}, {problem}: {call.effect}"
        yield Finding(CHECK, call.severity, call.caller, what, call.take_away)


def _problem(called: ServiceReference, backend: Backend) -> str:
    if backend.service is None:
        return "which does not exist"
    if backend.service.spec.type == "ExternalName":
        return ""  # outside of the cluster, where nothing can be read of it
    if called.port not in [one.port for one in backend.service.spec.ports or ()]:
        return f"which has no port {called.port}"
    if not any(one.is_ready for part in backend.slices for one in part.endpoints or ()):
        return "which has no ready pod"
    return ""


def _untrusted(call: Call, now: datetime.datetime) -> Iterable[Finding]:
    bundle = call.config.ca_bundle or ""
    if not bundle and call.config.service is None:
        return  # the certificate of a URL may be one that every machine trusts
    ends = _ends_of(bundle)
    step = "let the operator renew it (Manager(webhook_service=)), or cert-manager's cainjector"
    if not ends:
        what = "has no certificate" if not bundle else "has nothing that is a certificate"
        what = f"{what} in its caBundle, so no API server trusts its webhook: {call.effect}"
        yield Finding(CHECK, call.severity, call.caller, what, step)
    elif max(ends) <= now:
        what = f"has a caBundle that expired on {max(ends):%Y-%m-%d}: {call.effect}"
        yield Finding(CHECK, call.severity, call.caller, what, step)
    elif max(ends) - now < SOON:
        what = f"has a caBundle that expires on {max(ends):%Y-%m-%d}"
        yield Finding(CHECK, "warning", call.caller, what, step)


def _ends_of(bundle: str) -> Sequence[datetime.datetime]:
    ends = []
    for certificate in certificates_in(decoded_bundle(bundle)):
        try:
            ends.append(valid_until(certificate))
        except BadCertificate:
            continue
    return ends


def _is_own(config: ClientConfig, namespace: str) -> bool:
    return config.service is not None and config.service.namespace == namespace


def _matches(rules: Iterable[Rule], kinds: Sequence[tuple[str, str]]) -> bool:
    return any(
        _is_in(group, rule.api_groups)
        and any(_is_in(part, rule.resources) for part in (plural, f"{plural}/status", f"{plural}/*", "*/*"))
        for rule in rules
        for group, plural in kinds
    )


def _is_in(name: str, names: Sequence[str] | None) -> bool:
    return name in (names or ()) or "*" in (names or ())
