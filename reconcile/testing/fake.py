"""A client for unit tests: the real one, on a server of its own inside the test."""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from informers import APIResource, error_from_response
from reconcile.client.client import Client
from reconcile.embedded import ADMIN, ApiRequest, ApiServer, InProcessTransport, User, WatchStream
from reconcile.models import Object, encode, kind_of
from reconcile.models.fields import fields_of
from reconcile.testing.clock import VirtualClock
from reconcile.testing.failing import Failure, failing
from reconcile.testing.faults import FaultPlan, Verb
from reconcile.testing.faulty import FaultyTransport
from reconcile.testing.late import LateTransport
from reconcile.testing.stage import Stage

_NO_FAULTS = FaultPlan()


class FakeClient(Client):
    """The real client on an embedded server that holds `objects`, and nothing else.

    Nothing is imitated: definitions, validation, versions, conflicts, finalizers and garbage
    collection are the server's. Reads are live. Kinds of models are defined as they come; an object
    without a namespace goes to `default`, and namespaces are made as needed. A mapping is a manifest.
    `plan` says what goes wrong; `transport.requests` holds every request made through the client. A
    manager may run on `transport` too; its watches are late, by lags drawn from `seed`, never instant.
    `user` is who the client is: with `service_account("default", "my-operator")` it is held to the roles
    among `objects`, which themselves are put there by the administrator.
    """

    transport: FaultyTransport
    clock: VirtualClock

    def __init__(
        self,
        *objects: Object | Mapping[str, Any],
        plan: FaultPlan = _NO_FAULTS,
        seed: int = 0,
        clock: VirtualClock | None = None,
        user: User = ADMIN,
    ) -> None:
        clock = clock or VirtualClock(seed)
        self.server = _fresh().copy(clock)
        late = LateTransport(InProcessTransport(self.server, settle=True, user=user), seed)
        transport = FaultyTransport(late, plan, around=Stage(self.server))
        super().__init__(transport, clock=clock)
        for obj in objects:
            self.add(obj)

    def serve(self, kind: type[Object]) -> None:
        """Have the server serve the kind of a model, if it does not yet, with the versions beside it.

        These are the classes of the kind's other versions in its module, and those that are served already.
        Raises TypeError for versions that lose each other's fields.
        """
        Stage(self.server).serve(kind)

    def add(self, obj: Object | Mapping[str, Any]) -> dict[str, Any]:
        """Put an object on the server as it is, its status included; returns what is stored.

        Raises the error of the server, such as `Invalid`, and LookupError for a mapping whose kind is
        not served.
        """
        if isinstance(obj, Object):
            self.serve(type(obj))
            resource, body = kind_of(obj).resource, encode(obj)
            if _has_no_status(obj):
                body.pop("status", None)  # the server knows better what one begins with
        else:
            resource, body = self._resource_of(obj), dict(obj)
        metadata = dict(body.get("metadata") or {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
            self._make_namespace(metadata["namespace"])
        body["metadata"] = metadata
        collection = resource.path(metadata.get("namespace", ""))
        stored = self.request("POST", collection, body)
        if not body.get("status") or stored.get("status") == body["status"]:
            return stored
        patch = {"status": body["status"]}
        return self.request("PATCH", f"{collection}/{stored['metadata']['name']}/status", patch)

    def fail(self, verb: Verb, kind: type[Object] | str, error: Failure, times: int | None = 1) -> None:
        """Let the next `times` requests (None: all) of `verb` for objects of `kind` fail.

        `verb` is one of RBAC's (an apply is a `patch`), `write` or `*`; `kind` a model, or a pattern of
        paths. `error` is what the caller is to meet: a class of error, an error, an HTTP code, or a fault of
        a plan: `LoseReply()`, or `Meanwhile(Touch())` for a conflict that is genuine.
        """
        self.transport.add(failing(verb, kind, error, times))

    def _make_namespace(self, name: str) -> None:
        if self.server.handle(ApiRequest("GET", f"/api/v1/namespaces/{name}")).status == 404:  # type: ignore[union-attr]
            self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def _resource_of(self, manifest: Mapping[str, Any]) -> APIResource:
        group, slash, version = str(manifest.get("apiVersion", "")).partition("/")
        if not slash:
            group, version = "", group
        served = self.server.resources.by_kind(group, str(manifest.get("kind", "")), version)
        if served is None:
            raise LookupError(
                f"no kind {manifest.get('kind')} in {manifest.get('apiVersion')}: "
                f"add its CustomResourceDefinition first, or its model with serve()"
            )
        return APIResource(group, version, served.kind, served.plural, served.namespaced)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send one request past the client and return the decoded answer; a PATCH is a merge patch.

        It is the administrator's, no fault meets it and no record keeps it: for what a test puts on the
        server, or reads there, in a form that the models do not have. Raises the server's error.
        """
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = b"" if body is None else msgspec.json.encode(body)
        answer = self.server.handle(ApiRequest(method, path, {}, {"content-type": kind}, content))
        assert not isinstance(answer, WatchStream)
        if answer.status >= 400:
            raise error_from_response(answer.status, answer.headers, answer.body, f"{method} {path}")
        decoded: dict[str, Any] = msgspec.json.decode(answer.body)
        return decoded


def _has_no_status(obj: Object) -> bool:
    """Whether its status is what objects of its class are made with where none is given."""
    status = next((field for field in fields_of(type(obj)) if field.name == "status"), None)
    return status is not None and getattr(obj, "status", None) == status.default


@functools.cache
def _fresh() -> ApiServer:
    """A server that nobody has asked anything, made once: its copies cost a twentieth of one."""
    return ApiServer(clock=VirtualClock(_FIRST_SEED))


_FIRST_SEED = 1_000_003
"""What a server begins with has uids that those of no test can meet."""
