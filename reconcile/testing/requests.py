"""What was asked of a server in a run, as small records to count and to look at."""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import field, frozen

from reconcile.testing.faults import Verb

_READS = ("get", "list", "watch")
_SUBRESOURCES_OF_A_NAMESPACE = ("finalize", "status")


@frozen
class RecordedRequest:
    """One request, and what became of it.

    `at` is the time of the loop (s) at which it was made. `status` is the answer that the caller was
    given, None where it got none; `server_status` is what the server itself answered, None where
    the request never reached it. The two differ exactly where a fault stood between them.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(factory=dict)
    content: bytes | None = field(default=None, repr=False)
    at: float = 0.0
    status: int | None = None
    server_status: int | None = None

    def answered(self, status: int | None, server_status: int | None) -> "RecordedRequest":
        """The same request with an answer noted; what is None stays as it is."""
        return RecordedRequest(
            self.method,
            self.path,
            self.query,
            self.content,
            self.at,
            status or self.status,
            server_status or self.server_status,
        )

    @property
    def verb(self) -> Verb:
        """The verb of RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …"""
        return verb_of(self.method, self.path, self.query)

    @property
    def mutating(self) -> bool:
        """Whether it asked for a change; a dry run asks for none."""
        return self.verb not in _READS and not self.query.get("dryRun")

    @property
    def effective(self) -> bool:
        """Whether it asked for a change and the server accepted, whatever the caller was told."""
        return self.mutating and self.server_status is not None and self.server_status < 400

    @property
    def body(self) -> Any:
        """The body decoded from JSON, None where there was none. Raises msgspec.DecodeError."""
        return None if self.content is None else msgspec.json.decode(self.content)

    def __str__(self) -> str:
        return f"{self.verb.upper()} {self.path}"


def verb_of(method: str, path: str, query: Mapping[str, str]) -> Verb:
    """Which verb of RBAC a request is, as an API server would write it into its audit log."""
    named = bool(target_of(path)[1])
    match method:
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if named else "deletecollection"
    if query.get("watch") in ("1", "true"):
        return "watch"
    return "get" if named or not _resource_segments(path) else "list"


@functools.lru_cache(maxsize=1024)
def target_of(path: str) -> tuple[str, str]:
    """Plural and name of what a path means; name is empty for a collection, both for no resource."""
    plural, name, *_ = (*_resource_segments(path), "", "")
    return plural, name


def group_of(path: str) -> str:
    """The API group of a path, empty for the core group."""
    parts = path.strip("/").split("/")
    return parts[1] if parts[0] == "apis" and len(parts) > 1 else ""


def namespace_of(path: str) -> str:
    """The namespace in which a path's resource is, empty for what is in none."""
    parts = path.strip("/").split("/")
    rest = parts[{"api": 2, "apis": 3}.get(parts[0], len(parts)) :]
    namespaced = len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _SUBRESOURCES_OF_A_NAMESPACE
    return rest[1] if namespaced else ""


def _resource_segments(path: str) -> list[str]:
    parts = path.strip("/").split("/")
    lead = {"api": 2, "apis": 3}.get(parts[0])
    if lead is None:
        return []
    rest = parts[lead:]
    namespaced = len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _SUBRESOURCES_OF_A_NAMESPACE
    return rest[2:] if namespaced else rest
