"""What the operator of registry secrets is told by its environment: whose word is enough for a copy."""

from collections.abc import Mapping

from reconcile.blocks import Consent

TRUST_AUTHORS = "REGISTRY_SECRETS_TRUST_AUTHORS"
"""The switch for Kubero's behaviour: any Secret, into any namespace, as a pipeline says."""
SOURCES = "REGISTRY_SECRETS_SOURCES"
NAMESPACES = "REGISTRY_SECRETS_NAMESPACES"


def consent_from(environ: Mapping[str, str]) -> Consent:
    """What the variables say. Raises ValueError for what has no meaning; an unset variable allows nothing."""
    authors = environ.get(TRUST_AUTHORS, "").strip().lower()
    if authors not in ("", "true", "false"):
        raise ValueError(f"{TRUST_AUTHORS}: expected true or false, got {authors!r}")
    if authors == "true":
        return Consent.of_authors()
    try:
        return Consent(sources=_list(environ, SOURCES), namespaces=_list(environ, NAMESPACES))
    except ValueError as error:
        raise ValueError(
            f"{SOURCES} or {NAMESPACES}: {error}; for example shop:kubero/registry-login and shop:shop-*"
        ) from None


def _list(environ: Mapping[str, str], name: str) -> list[str]:
    return [part for part in environ.get(name, "").split(",") if part.strip()]
