"""One run of a controller, as a value that a test can look at."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen

from informers import Key, get_logger
from reconcile.client.client import Client
from reconcile.controller.blocking import InStep
from reconcile.controller.declaration import Controller
from reconcile.controller.declared_writes import Undeclared
from reconcile.controller.event_recorder import Recorder, recorder_of
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.models import Object, kind_of
from reconcile.runs.run_request import Request, Result
from reconcile.testing.fake_client import FakeClient
from reconcile.testing.recorded_requests import RecordedRequest

T = TypeVar("T", bound=Object)


@frozen
class RunReport:
    """What one run did.

    `writes` are its mutating requests in order, as `apply deployments default/web`; `events` are the
    Events that it recorded, as `Warning Reason: message`. `conditions` are those of the object after the
    run, by type. `retry` says whether the key would be tried again with back-off, because of `error`.
    `undeclared` lists what the controller's `writes=` lacks for what the run wanted to send, as code to
    paste there; without it the role that `reconcile manifests` prints would not allow the run.
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
) -> RunReport:
    """Reconcile one key once, without a manager, a cache or waiting. `key` is an object or `namespace/name`.

    A blocking call runs inline. An error of the reconciler is in the report and not raised; so is
    `UndeclaredWrite`, for a write that is not declared. `undeclared="warn"` sends that, and reports it.
    """
    client.serve(controller)
    request = request_of(controller, key)
    before = len(client.transport.requests)
    executor, recorder = executor_of(controller, client, undeclared=undeclared)
    outcome = await executor.run(request)
    await recorder.flush()
    made = [request for request in client.transport.requests[before:] if request.mutating]
    return RunReport(
        result=outcome.result,
        writes=[request.summary for request in made if request.target.resource != "events"],
        events=[_event(request) for request in made if request.target.resource == "events"],
        conditions=await _conditions(controller, request, client),
        error=outcome.error,
        retry=outcome.stale or (outcome.error is not None and not outcome.terminal),
        undeclared=executor.declarations.missing,
    )


def executor_of(
    controller: Controller[T], client: Client, *, rendering: bool = False, undeclared: Undeclared = "warn"
) -> tuple[RunExecutor[T], Recorder]:
    """Runs a controller without a manager, with its recorder of Events; blocking calls run inline."""
    recorder = recorder_of(controller, client)
    log = get_logger(f"reconcile.{controller.name}")
    executor = RunExecutor(
        controller, client, recorder, log, InStep(), rendering=rendering, undeclared=undeclared
    )
    return executor, recorder


def request_of(controller: Controller[Any], key: str | Key | Request | Object) -> Request:
    """The request for an object or its name, in namespace `default` if none is named."""
    namespaced = kind_of(controller.kind).resource.namespaced
    if isinstance(key, Object):
        return Request(key.namespace or ("default" if namespaced else ""), key.name)
    if isinstance(key, str):
        namespace, _, name = key.rpartition("/")
        return Request(namespace or ("default" if namespaced else ""), name)
    return Request(*key)


def _event(request: RecordedRequest) -> str:
    body = request.body
    if "reason" not in body:
        return f"again, {body['series']['count']} times"
    again = f" ({body['series']['count']} times)" if "series" in body else ""
    return f"{body['type']} {body['reason']}: {body['note']}{again}"


async def _conditions(
    controller: Controller[Any], request: Request, client: FakeClient
) -> Mapping[str, Mapping[str, Any]]:
    snapshot = await client.raw.snapshot(kind_of(controller.kind).resource, request.key, live=True)
    status = {} if snapshot is None else snapshot.to_dict().get("status") or {}
    return {condition["type"]: condition for condition in status.get("conditions") or ()}
