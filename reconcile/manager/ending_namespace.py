"""Lets objects go that would wait for ever for a manager whose own namespace is being deleted.

With its namespace go its pods, Lease and rights, and none can be made anew: so an object there whose cleanup
has not succeeded when the manager stops would hang, and the namespace with it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import frozen

from informers import ApiError, APIResource, Forbidden, Snapshot, get_logger
from reconcile.client.client import Client, reads_of
from reconcile.controller.event_recorder import Recorder
from reconcile.controller.run_output import PendingEvent
from reconcile.controller.runner import Runner
from reconcile.manager.option_list import ManagerOptions
from reconcile.models import ObjectMeta

LET_GO_SECONDS: Final = 10.0
"""For all of it: the pod is about to be killed."""
NAMED: Final = 10
"""How many objects an Event names."""

_log = get_logger("reconcile")


@frozen
class HeldObject:
    """An object that is being deleted and waits for a cleanup."""

    resource: APIResource
    snapshot: Snapshot
    finalizers: Sequence[str]
    """Those of its controller."""

    def __str__(self) -> str:
        return f"{self.resource} {self.snapshot.key}"


def home_of(options: ManagerOptions) -> str:
    """The namespace that a manager is in, where it keeps its Lease; empty if it has none."""
    together = options["sharding"] or options["leader_election"]
    return "" if together is None else together.namespace


def held_in(namespace: str, runners: Iterable[Runner[Any]]) -> Sequence[HeldObject]:
    """What still waits for a cleanup of these controllers in a namespace."""
    return [
        HeldObject(runner.controller.resource, snapshot, runner.controller.finalizers)
        for runner in runners
        for snapshot in runner.held_in(namespace)
    ]


async def let_go(client: Client, namespace: str, held: Sequence[HeldObject], component: str) -> None:
    """If the namespace is being deleted, release these objects without cleanup, and record an Event of it.

    `client` must bypass the guards of leadership: nothing can take over any more. Raises nothing of requests.
    """
    if not held or not await _is_ending(client, namespace):
        return
    from reconcile.kinds import Namespace

    names = ", ".join(map(str, held[:NAMED]))
    more = ", ..." if len(held) > NAMED else ""
    note = f"the operator ends with this namespace, so {len(held)} objects are let go without its cleanup: "
    _log.warning("objects are let go without cleanup", namespace=namespace, objects=f"{names}{more}")
    recorder = Recorder(client, component)
    event = PendingEvent("Warning", "LetGo", f"{note}{names}{more}", "Stop")
    recorder.record(Namespace(metadata=ObjectMeta(namespace)), event)
    await recorder.flush()  # in `default`: in a namespace that is being deleted nothing can be created
    for one in held:
        try:
            await _release(client, one)
        except ApiError as error:
            _log.warning("an object could not be let go", object=str(one), error=str(error))


async def _is_ending(client: Client, namespace: str) -> bool:
    """Ask by an Event that is not stored: every operator may create one, and few may read namespaces."""
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{namespace[:200]}.ending", "namespace": namespace},
        "eventTime": client.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "reconcile",
        "reportingInstance": "reconcile",
        "action": "Stop",
        "reason": "Ending",
        "type": "Normal",
        "regarding": {"kind": "Namespace", "name": namespace, "namespace": namespace},
    }
    try:
        await client.with_options(dry_run=True).create(event)
    except Forbidden as error:
        return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
    except ApiError:
        return False
    return False


async def _release(client: Client, held: HeldObject) -> None:
    fresh = await reads_of(client).snapshot(held.resource, held.snapshot.key)
    if fresh is None or fresh.uid != held.snapshot.uid:
        return
    rest = [name for name in fresh.finalizers if name not in held.finalizers]
    guard = {"uid": fresh.uid, "resourceVersion": str(fresh.version)}
    await client.raw.patch(held.resource, fresh.key, {"metadata": {"finalizers": rest}}, guard=guard)
