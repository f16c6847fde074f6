"""The requests of a run, as small records to count and to look at."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from attrs import field, frozen

from reconcile.embedded.protocol.request_info import RequestPlace, place_of, request_info
from reconcile.runs.tenure import Tenure
from reconcile.testing.faults import Verb

_READS = ("get", "list", "watch")
UNCOUNTED = frozenset({("coordination.k8s.io", "leases"), ("", "events"), ("events.k8s.io", "events")})
"""Resources (group and plural) that no invariant counts: they change while nothing else happens."""
_NOT_A_RESOURCE = RequestPlace("", "", "", "")
_OUTSIDE = "//"
_SERVICE_VERBS: Mapping[str, Verb] = {
    "GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
}  # fmt: skip


def service_path(service: str, path: str) -> str:
    """The path of a request to a service outside the cluster, in records and faults."""
    return f"{_OUTSIDE}{service}{path}"


def service_of(path: str) -> str:
    """The service outside the cluster to which a path belongs; empty for one of the API server."""
    return path.removeprefix(_OUTSIDE).partition("/")[0] if path.startswith(_OUTSIDE) else ""


def service_verb(method: str) -> Verb:
    """The verb of a request to a service outside the cluster."""
    return _SERVICE_VERBS.get(method, "update")


@frozen
class RecordedRequest:
    """A request at a time `at` of the loop, in seconds, and its answer.

    `status` is what the caller received, `server_status` what the server sent, each None without an answer;
    they differ only if a fault stood between. `run` is the number of the run of its process that sent it, 0
    for none, and `tenure` the tenure of that run, where replicas share the objects. `service_verb` is the
    verb of a request to a service outside the cluster, if it does not follow from the method.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(factory=dict)
    content: bytes | None = field(default=None, repr=False)
    at: float = 0.0
    status: int | None = None
    server_status: int | None = None
    tenure: Tenure | None = field(default=None, repr=False, eq=False)
    run: int = field(default=0, repr=False, eq=False)
    service_verb: Verb | None = None

    def answered(self, status: int | None, server_status: int | None) -> "RecordedRequest":
        """The same request with its answer; None leaves a status as it is."""
        # Not `evolve`, which takes five times as long: each request is recorded again with its answer.
        return RecordedRequest(
            self.method,
            self.path,
            self.query,
            self.content,
            self.at,
            status or self.status,
            server_status or self.server_status,
            self.tenure,
            self.run,
            self.service_verb,
        )

    @property
    def verb(self) -> Verb:
        """The RBAC verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …"""
        if self.outside:
            return self.service_verb or service_verb(self.method)
        return cast(Verb, request_info(self.method, self.path, self.query).verb)

    @property
    def outside(self) -> bool:
        """Whether it was sent to a service outside the cluster."""
        return self.path.startswith(_OUTSIDE)

    @property
    def target(self) -> RequestPlace:
        return target_of(self.path)

    @property
    def mutating(self) -> bool:
        """Whether it asked for a change; a dry run does not."""
        return self.verb not in _READS and not self.query.get("dryRun")

    @property
    def counted(self) -> bool:
        """Whether invariants count it, unlike those for Leases and Events."""
        return (self.target.group, self.target.resource) not in UNCOUNTED

    @property
    def effective(self) -> bool:
        """Whether the server accepted a change, whatever answer the caller received."""
        return self.mutating and self.server_status is not None and self.server_status < 400

    @property
    def body(self) -> Any:
        """The body decoded from JSON, None without one. Raises msgspec.DecodeError."""
        return None if not self.content else msgspec.json.decode(self.content)

    @property
    def summary(self) -> str:
        """A write in a few words: `create pods default/web-1`, `patch sites/status default/web`."""
        if self.outside:
            return f"{self.method} {self.path}"
        target = self.target
        verb = "apply" if self.verb == "patch" and "force" in self.query else self.verb
        name = target.name
        if not name and self.content is not None:
            metadata = (self.body or {}).get("metadata", {})
            name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
        plural = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
        return f"{verb} {plural} {target.within + '/' if target.within else ''}{name}"

    def __str__(self) -> str:
        return f"{self.verb.upper()} {self.path}"


def target_of(path: str) -> RequestPlace:
    """The resource and object that a path names, with empty parts if it names none."""
    return place_of(path) or _NOT_A_RESOURCE
