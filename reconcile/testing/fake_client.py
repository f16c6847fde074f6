"""A client for unit tests: the real one, on a server of its own inside the test."""

import functools
from collections.abc import Mapping
from typing import Any

from informers import Key
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.embedded import ADMIN, ApiServer, Converter, InProcessTransport, User
from reconcile.models import Object, encode, kind_of
from reconcile.models.fields import fields_of
from reconcile.testing.cluster_actor import ClusterActor
from reconcile.testing.failure_faults import RequestFailure, failure_fault
from reconcile.testing.faults import FaultPlan, Verb
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.late_watches import LateTransport
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.webhooks.in_process import served_by

_NO_FAULTS = FaultPlan()


class FakeClient(Client):
    """The real client on an embedded server that holds `objects`, and nothing else.

    Definitions, validation, versions, conflicts, finalizers and garbage collection are the server's own.
    Reads are live. Kinds of models are defined when they are first used; an object without a namespace
    goes to `default`, and namespaces are made as needed. A mapping is a manifest. The webhooks of a
    controller among the objects, or of one that runs, admit and convert as in a cluster.

    `plan` says what goes wrong; `transport.requests` holds every request of the client. A manager may run
    on `transport` too; its watches are late, by lags drawn from `seed`. The administrator adds the objects.
    With `user=service_account("default", "my-operator")` only the roles among them allow the client anything.
    `converter` is awaited in place of the conversion webhooks of definitions; the objects given here have to
    be in the version that is stored.
    """

    transport: FaultyTransport
    clock: VirtualClock

    def __init__(
        self,
        *objects: "Object | Mapping[str, Any] | Controller[Any]",
        plan: FaultPlan = _NO_FAULTS,
        seed: int = 0,
        clock: VirtualClock | None = None,
        user: User = ADMIN,
        converter: Converter | None = None,
    ) -> None:
        clock = clock or VirtualClock(seed)
        self.server = _fresh().copy(clock, converter=converter)
        late = LateTransport(InProcessTransport(self.server, settle=True, user=user), seed)
        self._actor = ClusterActor(self.server, user_agent="")
        transport = FaultyTransport(late, plan, effects=ClusterActor(self.server))
        super().__init__(transport, clock=clock)
        self.serve(*(one for one in objects if isinstance(one, Controller)))
        for obj in objects:
            if not isinstance(obj, Controller):
                self.add(obj)

    def serve(self, *kinds: "type[Object] | Controller[Any]") -> None:
        """Make the server serve these models, and the other versions of their kinds in the same modules.

        Versions that are served already stay; functions between them convert. The kinds of a controller are
        served, and its admission is called for all writes from now on, in place of that of an earlier one of
        its name. Raises TypeError for versions that lose each other's fields.
        """
        controllers = [one for one in kinds if isinstance(one, Controller)]
        for kind in [one for one in kinds if isinstance(one, type)] + served_by(controllers):
            self._actor.serve(kind)
        if controllers:
            self._actor.admit(controllers)

    def add(self, obj: Object | Mapping[str, Any]) -> dict[str, Any]:
        """Put an object with its status on the server and return what is stored.

        Raises the server's error, such as `Invalid`, and LookupError for a mapping whose kind is not served.
        """
        if isinstance(obj, Object):
            self.serve(type(obj))
            resource = kind_of(obj).resource
            body = {"apiVersion": resource.api_version, "kind": resource.kind, **encode(obj)}
            if _has_no_status(obj):
                body.pop("status", None)  # the server gives some kinds a first status of their own
        else:
            body = dict(obj)
        advice = "add its CustomResourceDefinition first, or its model with serve()"
        served = self._actor.kind_served(body, advice)
        metadata = dict(body.get("metadata") or {})
        if served.namespaced:
            metadata.setdefault("namespace", "default")
            self._make_namespace(metadata["namespace"])
        return self._actor.make({**body, "metadata": metadata})

    def fail(
        self, verb: Verb, kind: type[Object] | str, error: RequestFailure, times: int | None = 1
    ) -> None:
        """Make the next `times` requests (None: all) of `verb` for objects of `kind` fail.

        `verb` is an RBAC verb (an apply is a `patch`), `write` or `*`; `kind` is a model or a pattern as in
        `When`. `error` is an error or its class, an HTTP code, or a fault of a plan, such as `LoseReply()`,
        or `Meanwhile(Touch())` for a genuine conflict. Raises TypeError for a class without an HTTP code.
        """
        self.transport.add(failure_fault(verb, kind, error, times))

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request as the administrator and return the decoded answer; a PATCH is a merge patch.

        For what the models cannot express: no fault meets it, no record keeps it. Raises the server's error.
        """
        return self._actor.request(method, path, body)

    def _make_namespace(self, name: str) -> None:
        if self.server.log.get(("", "namespaces"), Key("", name)) is None:
            self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})


def _has_no_status(obj: Object) -> bool:
    status = next((field for field in fields_of(type(obj)) if field.name == "status"), None)
    return status is not None and getattr(obj, "status", None) == status.default


@functools.cache
def _fresh() -> ApiServer:
    """An unused server to copy, which takes a twentieth of creating one."""
    return ApiServer(clock=VirtualClock(_FIRST_SEED))


_FIRST_SEED = 1_000_003
"""No test uses it, so the uids that a server begins with differ from those of all tests."""
