"""The `caBundle`s of webhook configurations and definitions that call the operator's own Service."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconcile.webhooks.certificate_authority import MOST_PEM, fingerprints
from reconcile.webhooks.configurations import WebhookService


def trusted_by(body: Mapping[str, Any], service: WebhookService) -> frozenset[str] | None:
    """The CAs (fingerprints) that every webhook of the service trusts; None where it has none in `body`."""
    bundles = [fingerprints(decoded_bundle(config.get("caBundle"))) for _, config in _configs(body, service)]
    return frozenset.intersection(*bundles) if bundles else None


def bundle_patch(body: Mapping[str, Any], service: WebhookService, bundle: str) -> Sequence[dict[str, Any]]:
    """The JSON patch that gives every webhook of the service that bundle; empty where all have it."""
    encoded = base64.b64encode(bundle.encode()).decode()
    return [
        {"op": "add", "path": f"{path}/caBundle", "value": encoded}
        for path, config in _configs(body, service)
        if config.get("caBundle") != encoded
    ]


def _configs(body: Mapping[str, Any], service: WebhookService) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The `clientConfig`s that call the service, each with its JSON pointer."""
    own = (service.namespace, service.name)
    for path, config in _all_configs(body):
        called = config.get("service") if isinstance(config, Mapping) else None
        if isinstance(called, Mapping) and (called.get("namespace"), called.get("name")) == own:
            yield path, config


def _all_configs(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for place, webhook in enumerate(body.get("webhooks") or ()):
        yield f"/webhooks/{place}/clientConfig", webhook.get("clientConfig")
    conversion = (body.get("spec") or {}).get("conversion") or {}
    yield "/spec/conversion/webhook/clientConfig", (conversion.get("webhook") or {}).get("clientConfig")


def decoded_bundle(bundle: object) -> str:
    """The PEM of a `caBundle`; empty if it is not base64 of text, or far too long."""
    if not isinstance(bundle, str) or len(bundle) > 2 * MOST_PEM:
        return ""
    try:
        return base64.b64decode(bundle, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
