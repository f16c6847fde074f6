"""The consent to copies that the operator's environment gives."""

from collections.abc import Mapping

from reconcile.blocks import Consent

TRUST_AUTHORS = "REGISTRY_SECRETS_TRUST_AUTHORS"
"""Turns on Kubero's behaviour: a pipeline may copy any Secret into any namespace."""
SOURCES = "REGISTRY_SECRETS_SOURCES"
NAMESPACES = "REGISTRY_SECRETS_NAMESPACES"


def consent_from(environ: Mapping[str, str]) -> Consent:
    """The consent in the variables; an unset one allows nothing. Raises ValueError for an invalid value."""
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
