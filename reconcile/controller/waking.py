"""Whether the change of an object wakes keys, and the cause that it is for them."""

from typing import Any, Literal

from informers import APIResource, Delta, Informer, Key
from informers.cancellation import FAILURES
from reconcile.controller.declaration import Watch
from reconcile.controller.function_failures import FunctionFailures
from reconcile.predicates import Predicate
from reconcile.runs.run_request import Cause


def cause_of(informer: Informer, delta: Delta, key: Key | None = None) -> Cause:
    """A change of a store as the cause of a run; `key` is that of its object, if at hand."""
    last = delta.last
    since = 0 if delta.old is None else delta.old.version
    return Cause(_verb(delta), informer.resource, key or last.key, last.version, since=since)


def _verb(delta: Delta) -> Literal["added", "updated", "deleted", "resynced"]:
    if delta.resync:
        return "resynced"
    if delta.old is None:
        return "added"
    return "deleted" if delta.new is None else "updated"


def wakes(
    predicate: Predicate,
    delta: Delta,
    failures: FunctionFailures,
    resource: APIResource,
    watch: Watch[Any, Any] | None = None,
) -> bool:
    """Whether a change of an object of `resource` wakes; a resync or a failing predicate does."""
    old, new = delta.old, delta.new
    if delta.resync:
        return True
    try:
        # A new object of the same name counts as a deletion and a creation.
        if old is not None and new is not None and not old.is_same_object(new):
            return predicate.wakes(old, None) or predicate.wakes(None, new)
        return predicate.wakes(old, new)
    except FAILURES as error:
        place = "wakes=" if watch is None else f"{watch}: wakes="
        states = (delta.last, delta.old, delta.new)
        failures.report(place, predicate.test, error, "the change wakes", resource, states)
        return True
