"""Which changes of an object wake a controller: small tests, combined with `&`, `|` and `~`.

A test gets the states before and after a change. Most of them (`generation`, `labels`, ...) do not apply
where an object is created or deleted: they return None, which is neither yes nor no, also under `~`. A
change wakes unless the test says no. An object that was deleted and created again between two
observations counts as a deletion and a creation.

    Controller(Site, keep_site, wakes=predicates.generation | predicates.annotations)
    Controller(Pod, keep_pod, wakes=predicates.selector("app=web") & ~predicates.deletion)
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from attrs import frozen

from informers import Snapshot
from informers.functions import check_function, name_of
from informers.informer_selection import selects

__all__ = [
    "Changed",
    "Predicate",
    "Test",
    "Verdict",
    "annotations",
    "as_predicate",
    "default",
    "deletion",
    "finalizers",
    "generation",
    "labels",
    "replaced",
    "selector",
    "updates",
    "version",
]

Verdict: TypeAlias = bool | None
"""True wakes, False does not, None does not apply."""
Test: TypeAlias = Callable[[Snapshot | None, Snapshot | None], Verdict]
"""Gets any change: the old state and the new one; None stands for absence."""
Changed: TypeAlias = Callable[[Snapshot, Snapshot], bool]
"""Gets an update: the old state and the new one."""


@frozen
class Predicate:
    """Whether a change wakes. `test` gets the old and the new state; None stands for absence."""

    test: Test

    def __attrs_post_init__(self) -> None:
        check_function(self.test, "a predicate", "old, new", "plain")

    def wakes(self, old: Snapshot | None, new: Snapshot | None) -> bool:
        """Whether this change wakes: unless the test says no."""
        return self.test(old, new) is not False

    def __and__(self, other: "Predicate | Changed") -> "Predicate":
        first, second = self.test, as_predicate(other).test
        return Predicate(lambda old, new: _both(first(old, new), second, old, new))

    def __or__(self, other: "Predicate | Changed") -> "Predicate":
        tests = *_alternatives(self), *_alternatives(as_predicate(other))
        return Predicate(_Either(tests))

    def __rand__(self, other: Changed) -> "Predicate":
        return as_predicate(other) & self

    def __ror__(self, other: Changed) -> "Predicate":
        return as_predicate(other) | self

    def __invert__(self) -> "Predicate":
        test = self.test
        return Predicate(lambda old, new: _opposite(test(old, new)))


def updates(changed: Changed) -> Predicate:
    """A predicate that calls a function for updates; it does not apply to creations and deletions."""

    def test(old: Snapshot | None, new: Snapshot | None) -> Verdict:
        return None if old is None or new is None else changed(old, new)

    check_function(changed, "a predicate (wakes=, or of &, | and ~)", "old, new", "plain")
    test.__qualname__ = name_of(changed)  # what a message about it says
    return Predicate(test)


def as_predicate(test: "Predicate | Changed") -> Predicate:
    """A predicate as it is; a function as `updates` of it."""
    return test if isinstance(test, Predicate) else updates(test)


def selector(labels: str = "", fields: str = "") -> Predicate:
    """Objects that a label selector and a field selector choose, in the old state or in the new one.

    So the last change that passes is the one that takes an object out of the selection. Only changes are
    chosen: children, watches and timers still wake other objects. `Controller(selector=)` chooses objects.
    Raises ValueError for an invalid selector.
    """
    chosen = selects(labels, fields)
    return Predicate(lambda old, new: any(state is not None and chosen(state) for state in (new, old)))


def _both(first: Verdict, test: Test, old: Snapshot | None, new: Snapshot | None) -> Verdict:
    if first is False:
        return False
    second = test(old, new)
    return False if second is False else None if first is None else second


@frozen
class _Either:
    """Yes if one of the tests says yes, no if each of them says no."""

    tests: Sequence[Test]

    def __call__(self, old: Snapshot | None, new: Snapshot | None) -> Verdict:
        verdict: Verdict = False
        for test in self.tests:
            answer = test(old, new)
            if answer:
                return True
            if answer is None:
                verdict = None
        return verdict


def _alternatives(predicate: Predicate) -> Sequence[Test]:
    """The tests of an `|`, flat: it runs at each event, and one loop costs less than nested calls."""
    return predicate.test.tests if isinstance(predicate.test, _Either) else (predicate.test,)


def _opposite(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict


replaced = updates(lambda old, new: not old.is_same_object(new))
"""Deleted and created again: the name is the same, the object is another. Always wakes a controller."""

version = updates(lambda old, new: old.version != new.version)
"""Any change at all, except a resync."""

generation = updates(lambda old, new: old.generation != new.generation or new.generation is None)
"""The spec, as the server counts its changes. A kind that has no generation changes with every version."""

labels = updates(lambda old, new: old.labels != new.labels)
"""A label."""

annotations = updates(lambda old, new: old.annotations_hash != new.annotations_hash)
"""An annotation."""

deletion = updates(lambda old, new: old.deletion_timestamp != new.deletion_timestamp)
"""Deletion was asked for."""

finalizers = updates(lambda old, new: old.finalizers != new.finalizers)
"""A finalizer."""

default = generation | replaced | deletion | finalizers | labels | annotations
"""The default of a controller: everything but the status, so its own status writes never wake it."""
