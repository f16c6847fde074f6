"""The rules for paths: inside a volume, and below a domain."""

import re
from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import subdomain_faults
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_required

# httpPathFmt in apimachinery's util/validation: what RFC 3986 allows in a path.
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def no_backsteps(text: str, path: str) -> Iterator[FieldCause]:
    """The fault of a path that leads upwards."""
    if ".." in text.split("/"):
        yield value_invalid(path, text, "must not contain '..'")


def descending_path_causes(text: str, path: str) -> Iterator[FieldCause]:
    """The faults of a path that has to lead downwards (validateLocalDescendingPath)."""
    if text.startswith("/"):
        yield value_invalid(path, text, "must be a relative path")
    yield from no_backsteps(text, path)


def local_path_causes(text: str, path: str) -> Iterator[FieldCause]:
    """The faults of the path of a file that the kubelet writes (ValidateLocalNonReservedPath)."""
    yield from descending_path_causes(text, path)
    if text.startswith("..") and not text.startswith("../"):
        yield value_invalid(path, text, "must not start with '..'")


def domain_path_causes(text: str, path: str) -> Iterator[FieldCause]:
    """The faults of a required path with a domain in front, such as `acme.io/foo` (IsDomainPrefixedPath)."""
    domain, _, rest = text.partition("/")
    if not text:
        yield value_required(path)
    elif not domain or not rest:
        yield value_invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from (value_invalid(path, domain, fault) for fault in subdomain_faults(domain))
        if not _HTTP_PATH.fullmatch(rest):
            why = f"Invalid path (regex used for validation is '{_HTTP_PATH.pattern}')"
            yield value_invalid(path, rest, why)
