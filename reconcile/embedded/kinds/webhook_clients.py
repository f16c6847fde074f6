"""The rules for how a webhook is reached, and for the versions of reviews that it accepts."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from informers.apimachinery.name_rules import service_name_faults, subdomain_faults
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_required
from reconcile.embedded.protocol.go_urls import UrlFault, read_url

_FORM = "; desired format: https://host[/path]"
_MAX_PORT = 65535
_REVIEW_VERSIONS = ("v1", "v1beta1")
_NEEDED = f"must specify one of {', '.join(_REVIEW_VERSIONS)}"


def client_causes(client: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """The faults of a `clientConfig`, of which `path` is the place."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield value_required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_causes(url, f"{path}.url")
    elif service is not None:
        yield from _service_causes(service, f"{path}.service")


def _url_causes(url: str, path: str) -> Iterator[FieldCause]:
    try:
        parts = read_url(url)
    except UrlFault as fault:
        yield value_required(path, f"url must be a valid URL: {fault}{_FORM}")
        return
    if parts.scheme != "https":
        yield value_invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        yield value_invalid(path, host, f"host must be specified{_FORM}")
    for found, value, what in (
        (bool(at), user, "user information is not"),
        (bool(parts.fragment), parts.fragment, "fragments are not"),
        (bool(parts.query), parts.query, "query parameters are not"),
    ):
        if found:
            yield value_invalid(path, value, f"{what} permitted in the URL")


def _service_causes(service: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    # ValidateWebhookService takes the namespace before the name, and both its callers pass them the other way
    # round, so that a real server says of a missing name that the namespace is missing.
    for field, missing in (("name", "namespace"), ("namespace", "name")):
        if not service.get(missing):
            yield value_required(f"{path}.{field}")
    port = service.get("port") or 0
    yield from port_causes(port, f"{path}.port")
    url_path = service.get("path")
    if url_path is not None:
        yield from _path_causes(url_path, f"{path}.path")


def port_causes(port: int, path: str) -> Iterator[FieldCause]:
    if not 1 <= port <= _MAX_PORT:
        yield value_invalid(path, port, f"port is not valid: must be between 1 and {_MAX_PORT}, inclusive")


def _path_causes(url_path: str, path: str) -> Iterator[FieldCause]:
    if url_path in ("", "/"):
        return
    if url_path == "//":
        yield value_invalid(path, url_path, "segment[0] may not be empty")
        return
    if not url_path.startswith("/"):
        yield value_invalid(path, url_path, "must start with a '/'")
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            yield value_invalid(path, url_path, f"segment[{index}] may not be empty")
        faults = subdomain_faults(segment) if segment else ()
        yield from (value_invalid(path, url_path, f"segment[{index}]: {fault}") for fault in faults)


def knows_review(versions: Sequence[str]) -> bool:
    """Whether the server can send one of these versions of reviews."""
    return any(version in _REVIEW_VERSIONS for version in versions)


def bundle_causes(bundle: str, path: str) -> Iterator[FieldCause]:
    """The faults of a `caBundle` of which a real server reads the certificates at once.

    Without the extra `embedded`, nothing is looked at.
    """
    if not bundle or find_spec("cryptography") is None:
        return
    from cryptography.x509 import load_pem_x509_certificates

    try:
        load_pem_x509_certificates(base64.b64decode(bundle))
    except ValueError:
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        yield value_invalid(path, bundle, why)


def review_version_causes(
    versions: Sequence[str], path: str, *, known: bool, need: str = _NEEDED
) -> Iterator[FieldCause]:
    """The faults of the versions of reviews that a webhook accepts; `known` if the server must know one.

    `need` is what is said if there is none.
    """
    accepted = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        yield value_required(path, need)
        return
    for index, version in enumerate(versions):
        where = f"{path}[{index}]"
        if version in versions[:index]:
            yield value_invalid(where, version, "duplicate version")
            continue
        yield from (value_invalid(where, version, fault) for fault in service_name_faults(version))
    if known and not knows_review(versions):
        yield value_invalid(path, versions, f"must include at least one of {accepted}")
