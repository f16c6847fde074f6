"""One object's life: how it does, why it does not run now, its last runs, and what it owns.

The page, `reconcile explain --export` and the traces made of it show this, and derive nothing of it
themselves. It is bounded in size, and has no secrets.
"""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

import anyio
from attrs import frozen

from informers import APIResource, Informer, Snapshot
from informers.clock import Clock
from reconcile.controller.declared_secrets import declared_secrets
from reconcile.controller.runner import Runner
from reconcile.ops.debug_actions import DebugActions
from reconcile.ops.manager_status import ManagerStatus
from reconcile.runs.run_request import Request
from reconcile.status.key_facts import Around, around_of, facts_of
from reconcile.status.life_form import LATEST, VERSION
from reconcile.status.life_runs import Origin, RunView, changes_in, origins_of, runs_shown, states_written
from reconcile.status.life_secrets import declared_values_of, redactor_of
from reconcile.status.object_glance import health_at
from reconcile.status.object_health import (
    CONDITIONS_READ,
    HealthFacts,
    ObjectHealth,
    facts_in,
    health_of,
)
from reconcile.status.ownership import Family
from reconcile.status.shown_values import ShownValues
from reconcile.status.why_not_now import why_not_now

FINALIZERS_SHOWN: Final = 10
ERROR_FORGOTTEN: Final = "its last run failed; the log has the error"
"""Of a key that failed so long ago that its runs are not remembered."""


@frozen
class ObjectLives:
    """The lives of the objects that a manager works on. To be used in its event loop."""

    actions: DebugActions
    status: Callable[[], ManagerStatus]
    clock: Clock

    def life_of(self, controller: str, key: str) -> Mapping[str, Any]:
        """The life of the object `key` (`namespace/name`); `controller` is its name, or a kind.

        Raises LookupError if there is none, and ValueError for a bad key, and for a kind that several
        controllers work on.
        """
        found = self.actions.found(controller, key)
        # A controller may have the name of a kind that others work on too.
        found = [pair for pair in found if pair[0].name == controller] or found
        if len(found) > 1:
            names = ", ".join(runner.name for runner, _ in found)
            raise ValueError(f"several controllers work on {controller} {key}: name one of {names}")
        ((runner, request),) = found
        around = around_of(self.status(), self.actions.replica())
        return life_of(runner, request, around, self.clock, self.actions.runners())


def life_of(
    runner: Runner[Any], request: Request, around: Around, clock: Clock, runners: Sequence[Runner[Any]]
) -> Mapping[str, Any]:
    """The life of the object of `request`, as JSON has it. `runners` are all of the manager."""
    now, wall_now = anyio.current_time(), clock.now().timestamp()
    resource, informers = runner.controller.resource, runner.informers
    neighbours = [each for each in runners if each.cluster == runner.cluster]
    snapshot = runner.object_of(request)
    paths = declared_secrets(each.controller for each in neighbours)
    redact = redactor_of(runner.history, request, informers, _declared(runner, request, snapshot, paths))
    shown = cache(lambda of: ShownValues(redact, paths.get(of, frozenset())))
    obj = _decoded(snapshot, shown(resource))
    health = health_of_key(obj, runner, request)
    why = why_not_now(facts_of(runner, request, now, around, place=True))
    due_at = None if why.next_in is None else now + why.next_in
    past, active = runner.history.past(request), runner.history.active(request)
    causes = chain.from_iterable(run.causes for run in (*past, *((active,) if active else ())))
    origins = origins_of(changes_in(causes), neighbours)
    informer_of = {informer.resource: informer for informer in informers}.get
    view = RunView(lambda at: round(wall_now - now + at, 6), redact, shown, informer_of, origins)
    return {
        "version": VERSION,
        "now": round(wall_now, 6),
        "controller": runner.name,
        "kind": resource.kind,
        "resource": resource.name,
        "cluster": runner.cluster,
        "key": str(request.key),
        **_of_object(snapshot, obj, view),
        "health": health.health,
        "reason": view.prose(health.reason),
        "why": {
            "state": why.state,
            "sentence": view.prose(why.sentence),
            "next_at": None if due_at is None else view.wall(due_at),
        },
        "runs": runs_shown(past, active, due_at, view, Origin(runner.name, str(request.key), "")),
        "tree": None
        if snapshot is None
        else _tree(runner, request, snapshot, health.health, shown, informers),
    }


def _declared(
    runner: Runner[Any],
    request: Request,
    snapshot: Snapshot | None,
    paths: Mapping[APIResource, frozenset[tuple[str, ...]]],
) -> Iterator[str]:
    """What the class declares secret in the object, as it is, and as its runs found and left it."""
    resource = runner.controller.resource
    if hidden := paths.get(resource):
        before = states_written(runner.history.past(request), (resource, request.key))
        for state in (*before, *((snapshot,) if snapshot is not None else ())):
            yield from declared_values_of(state, hidden)


def health_of_key(obj: Mapping[str, Any], runner: Runner[Any], request: Request) -> ObjectHealth:
    """How a decoded object does, by its last run here, or else by what is remembered of that."""
    facts = facts_in(obj)
    runs = [run for run in runner.history.past(request) if run.result != "cancelled"]
    if runs:
        return health_of(_after_run(facts, runs[-1].error))
    last = None if runner.history.ends is None else runner.history.ends.last(request)
    if last is None:
        return health_of(facts)
    return health_of(_after_run(facts, ERROR_FORGOTTEN if last.failed else ""))


def _after_run(facts: HealthFacts, error: str) -> HealthFacts:
    return HealthFacts(
        facts.deleting, facts.generation, facts.observed, facts.conditions, ran=True, error=error
    )


def _decoded(snapshot: Snapshot | None, shown: ShownValues) -> Mapping[str, Any]:
    """What a life says of an object: its metadata, and of its status the conditions, without secrets."""
    try:
        obj = {} if snapshot is None else snapshot.to_dict()
    except RecursionError:
        return {}
    status = obj.get("status")
    if not isinstance(status, dict):
        return {"metadata": obj.get("metadata")}
    listed = status.get("conditions")
    conditions = listed[:CONDITIONS_READ] if isinstance(listed, list) else []
    status = {
        "observedGeneration": status.get("observedGeneration"),
        "conditions": shown.masked(("status", "conditions"), conditions),
    }
    return {"metadata": obj.get("metadata"), "status": status}


def _of_object(snapshot: Snapshot | None, obj: Mapping[str, Any], view: RunView) -> Mapping[str, Any]:
    """What an object says of itself; all empty once it is gone."""
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    finalizers = () if snapshot is None else snapshot.finalizers[:FINALIZERS_SHOWN]
    return {
        "exists": snapshot is not None,
        "uid": "" if snapshot is None else view.text(snapshot.uid),
        "created": _seconds(metadata.get("creationTimestamp")),
        "deleting_since": None if snapshot is None else _seconds(snapshot.deletion_timestamp),
        "finalizers": [view.text(one) for one in finalizers],
        "generation": None if snapshot is None else snapshot.generation,
        "observed": facts_in(obj).observed,
        "conditions": _conditions(obj, view),
    }


def _conditions(obj: Mapping[str, Any], view: RunView) -> Sequence[Mapping[str, Any]]:
    listed = (obj.get("status") or {}).get("conditions") or []
    return [
        {
            **{name: _text(one.get(name), view) for name in ("type", "status", "reason", "message")},
            "since": _seconds(one.get("lastTransitionTime")),
        }
        for one in listed
        if isinstance(one, dict)
    ]


def _text(value: object, view: RunView) -> str:
    return view.prose(value) if isinstance(value, str) else ""


def _seconds(timestamp: object) -> float | None:
    """Unix seconds of a timestamp; None for anything else, and for times before 1970 or after 9999."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.datetime.fromisoformat(timestamp)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= LATEST else None


def _tree(
    runner: Runner[Any],
    request: Request,
    snapshot: Snapshot,
    health: str,
    shown: Callable[[APIResource], ShownValues],
    informers: Sequence[Informer],
) -> Mapping[str, Any]:
    details = runner.history.details
    intents = {} if details is None else details.intents(request)
    tree = Family(informers, intents, shown, _health_of_child).tree_of(runner.controller.resource, snapshot)
    return {**tree, "health": health}


def _health_of_child(snapshot: Snapshot) -> str:
    # Other kinds have no runs here: what says nothing of itself (a ConfigMap) is well once it exists.
    return health_at(snapshot, ran=True, error="", secret=False).health
