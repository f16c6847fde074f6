"""What can be asked of a running manager about one key: explain, trigger, pause, resume."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio
from attrs import frozen

from informers import Snapshot
from reconcile.controller.runner import Runner
from reconcile.ops.debug_state import KEYS_SHOWN, past_run, queued_key, running_run
from reconcile.ops.manager_status import ShardingStatus
from reconcile.runs.run_request import BY_HAND, Request, as_request


class Replica(Protocol):
    """One of several that share the objects."""

    def holder(self, snapshot: Snapshot, sharded: bool) -> str:
        """The member of the ring that works on an object; empty if that is not known."""
        ...

    def status(self) -> ShardingStatus: ...


@frozen
class DebugActions:
    """Answers for the runners of a manager; `kind` is a kind, a plural, or the name of a controller.

    With `controller` only the one of exactly that name answers: several may work on one kind.

    `why` says why a key does not run now, in one word and a sentence that may be empty.
    """

    runners: Callable[[], Sequence[Runner[Any]]]
    replica: Callable[[], Replica | None] = lambda: None
    why: Callable[[Runner[Any], Request], tuple[str, str]] = lambda runner, request: ("", "")

    def found(self, kind: str, key: str, controller: str = "") -> Sequence[tuple[Runner[Any], Request]]:
        """Each controller of that name or kind that knows the key. Raises LookupError, ValueError."""
        runners, kind = self._asked(kind, controller), kind or controller
        cluster, _, rest = key.partition(":")
        if cluster in {runner.cluster for runner in runners}:
            request = as_request(rest)._replace(cluster=cluster)
        else:  # RBAC has names such as `system:node`
            request = as_request(key)
        found = [
            (runner, request._replace(cluster=runner.cluster))
            for runner in runners
            if request.cluster in ("", runner.cluster) and runner.knows(request)
        ]
        if not found:
            raise LookupError(self._elsewhere(kind, key, runners[0], request))
        return found

    def _asked(self, kind: str, controller: str) -> Sequence[Runner[Any]]:
        if controller:
            if named := [runner for runner in self.runners() if runner.name == controller]:
                return named
            known = ", ".join(sorted(each.name for each in self.runners()))
            raise LookupError(f"no controller here is named {controller!r}; there are: {known or 'none'}")
        if found := [runner for runner in self.runners() if _is(runner, kind)]:
            return found
        known = ", ".join(sorted({each.controller.resource.kind for each in self.runners()}))
        raise LookupError(f"no controller here has the kind {kind!r}; there are: {known or 'none'}")

    def explain(self, kind: str, key: str, controller: str = "") -> Mapping[str, Any]:
        """The last runs of a key in each controller. Raises LookupError, and ValueError for a bad key."""
        now = anyio.current_time()
        return {
            "controllers": [
                {
                    **_explained(runner, request, now),
                    "held_by": self._holder(runner, request),
                    "why": dict(zip(("state", "sentence"), self.why(runner, request), strict=True)),
                }
                for runner, request in self.found(kind, key, controller)
            ]
        }

    def act(self, action: str, kind: str, key: str, controller: str = "") -> Mapping[str, Any]:
        """Trigger, pause or resume a key; returns in which controllers. Raises LookupError, ValueError."""
        found, done = self.found(kind, key, controller), []
        if action == "trigger" and all(runner.is_left(request) for runner, request in found):
            raise LookupError(self._elsewhere(kind, key, *found[0]))
        for runner, request in found:
            if action == "trigger":
                if runner.is_left(request):
                    continue
                runner.enqueue(request, BY_HAND)
            elif action == "pause":
                runner.rest(request)
            elif not runner.wake(request):
                raise LookupError(f"{kind} {key} is not paused in controller {runner.name}")
            done.append(runner.name)
        return {"action": action, "kind": kind, "key": key, "controllers": done}

    def _holder(self, runner: Runner[Any], request: Request) -> str:
        """The replica that works on a key, if it is known and another one."""
        replica, snapshot = self.replica(), runner.object_of(request)
        if replica is None or snapshot is None or not runner.is_left(request):
            return ""
        holder = replica.holder(snapshot, runner.controller.sharded)
        return "" if holder == replica.status().identity else holder

    def _elsewhere(self, kind: str, key: str, runner: Runner[Any], request: Request) -> str:
        """Why there is nothing here to say of a key, or to do."""
        replica = self.replica()
        if replica is None:
            return f"there is no {kind} {key} in the cache of this manager"
        if holder := self._holder(runner, request):
            return f"the replica {holder} holds {kind} {key}: ask that one"
        status, name = replica.status(), f"{runner.controller.resource.kind}/{request.key}"
        return (
            f"the replica {status.identity} does not hold {kind} {key}: "
            f"reconcile shards {status.ring} of {name} names the one that does"
        )


def _is(runner: Runner[Any], kind: str) -> bool:
    resource = runner.controller.resource
    return kind in (runner.controller.name, runner.name) or kind.lower() in (
        resource.kind.lower(),
        resource.plural,
        resource.name,
    )


def _explained(runner: Runner[Any], request: Request, now: float) -> Mapping[str, Any]:
    storm = runner.guard.storm_of(request)
    running = [run for run in runner.history.running() if run.request == request]
    queued = [(item, due) for item, due in runner.queue.queued(KEYS_SHOWN) if item.key == request]
    return {
        "controller": runner.name,
        "kind": runner.controller.resource.kind,
        "key": str(request),
        "paused": request in runner.resting or not runner.working,
        "storm": None if storm is None else storm.shown(now),
        "running": [running_run(run, now) for run in running],
        "queued": [queued_key(item, due) for item, due in queued],
        "runs": [past_run(run, now) for run in runner.history.past(request)],
    }
