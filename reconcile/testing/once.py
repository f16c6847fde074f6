"""One pass of a controller, as a value that a test can look at."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen

from informers import Key, get_logger
from reconcile.controller.blocking import InStep
from reconcile.controller.declaration import Controller
from reconcile.controller.declared_writes import Undeclared
from reconcile.controller.event_recorder import recorder_of
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.models import Object, kind_of
from reconcile.runs.requests import Request, Result
from reconcile.testing.fake import FakeClient
from reconcile.testing.requests import RecordedRequest, target_of

T = TypeVar("T", bound=Object)


@frozen
class Pass:
    """What one run came to.

    `writes` are its mutating requests in order, as `apply deployments default/web`; events are told
    apart, as `Warning Reason: message`. `conditions` are those of the object afterwards, by type.
    `retry` says whether the key would be tried again with back-off, for `error`. `undeclared` is what the
    controller's `writes=` lacks for what the run was to send, each as one would write it there; without it
    `reconcile manifests` would not allow the run.
    """

    result: Result
    writes: Sequence[str]
    events: Sequence[str]
    conditions: Mapping[str, Mapping[str, Any]]
    error: Exception | None
    retry: bool
    undeclared: Sequence[str] = ()


async def run_once(
    controller: Controller[T],
    key: str | Key | Request | Object,
    client: FakeClient,
    *,
    undeclared: Undeclared = "refuse",
) -> Pass:
    """Reconcile one key once, without manager, cache or waiting. `key`: an object, or `namespace/name`.

    A blocking call of the reconciler runs inline. A failure of the reconciler is in the pass, not raised;
    a write that the controller does not declare is one (`UndeclaredWrite`), unless `undeclared` is `warn`:
    then it is sent, and the pass lists all of them.
    """
    for kind in controller.kinds:
        client.serve(kind)
    request = request_of(controller, key)
    log = get_logger(f"reconcile.{controller.name}")
    recorder = recorder_of(controller, client)
    before = len(client.transport.requests)
    executor = RunExecutor(controller, client, recorder, log, InStep())
    executor.declarations.refuse = undeclared == "refuse"
    outcome = await executor.run(request)
    await recorder.flush()
    made = [r for r in client.transport.requests[before:] if r.mutating]
    return Pass(
        result=outcome.result,
        writes=[describe(r) for r in made if target_of(r.path)[0] != "events"],
        events=[_event(r) for r in made if target_of(r.path)[0] == "events"],
        conditions=await _conditions(controller, request, client),
        error=outcome.error,
        retry=outcome.stale or (outcome.error is not None and not outcome.terminal),
        undeclared=executor.declarations.missing,
    )


def describe(request: RecordedRequest) -> str:
    """A mutating request in a few words: `create pods default/web-1`, `patch sites/status default/web`."""
    parts = request.path.strip("/").split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-2] else ""
    plural, name = target_of(request.path)
    subresource = parts[-1] if name and parts[-1] != name else ""
    applying = request.verb == "patch" and "force" in request.query
    verb = "apply" if applying else request.verb
    if not name and request.content is not None:
        metadata = (request.body or {}).get("metadata", {})
        name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
    what = f"{plural}/{subresource}" if subresource else plural
    return f"{verb} {what} {namespace + '/' if namespace else ''}{name}"


def _event(request: RecordedRequest) -> str:
    body = request.body
    if "reason" not in body:
        return f"again, {body['series']['count']} times"
    again = f" ({body['series']['count']} times)" if "series" in body else ""
    return f"{body['type']} {body['reason']}: {body['note']}{again}"


def request_of(controller: Controller[Any], key: str | Key | Request | Object) -> Request:
    """The request for what names an object, in namespace `default` where none is named."""
    namespaced = kind_of(controller.kind).resource.namespaced
    if isinstance(key, Object):
        return Request(key.namespace or ("default" if namespaced else ""), key.name)
    if isinstance(key, str):
        namespace, _, name = key.rpartition("/")
        return Request(namespace or ("default" if namespaced else ""), name)
    return Request(*key)


async def _conditions(
    controller: Controller[Any], request: Request, client: FakeClient
) -> Mapping[str, Mapping[str, Any]]:
    snapshot = await client.snapshot(kind_of(controller.kind).resource, request.key, live=True)
    status = {} if snapshot is None else snapshot.to_dict().get("status") or {}
    return {condition["type"]: condition for condition in status.get("conditions") or ()}
