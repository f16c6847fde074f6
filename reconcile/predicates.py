"""Which changes of an object wake a controller: small tests, put together with `&`, `|` and `~`.

A test is asked about a change from one state to another. Most of them (`generation`, `labels`, ...)
have nothing to say where an object appears or disappears: they answer None, which counts as neither
yes nor no, also under `~`. What nobody objects to wakes. An object that was deleted and created again
between two looks is such a disappearance and appearance too, not a change.

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
"""True wakes, False does not, None has nothing to say."""
Test: TypeAlias = Callable[[Snapshot | None, Snapshot | None], Verdict]
"""Asked about any change: the old state and the new one; None stands for absence."""
Changed: TypeAlias = Callable[[Snapshot, Snapshot], bool]
"""Asked about an update: the old state and the new one."""


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
        one, two = self.test, as_predicate(other).test
        return Predicate(lambda old, new: _both(one(old, new), two, old, new))

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
    """The predicate that asks a function about updates; appearing and disappearing are not its matter."""

    def test(old: Snapshot | None, new: Snapshot | None) -> Verdict:
        return None if old is None or new is None else changed(old, new)

    check_function(changed, "a predicate (wakes=, or of &, | and ~)", "old, new", "plain")
    test.__qualname__ = name_of(changed)  # what a message about it says
    return Predicate(test)


def as_predicate(given: "Predicate | Changed") -> Predicate:
    """A predicate as it is, a function as `updates` makes it one."""
    return given if isinstance(given, Predicate) else updates(given)


def selector(labels: str = "", fields: str = "") -> Predicate:
    """Objects that a label selector and a field selector choose, in the old state or in the new one.

    So the change that takes an object out of the selection is the last that is seen of it. It chooses
    changes: children, watches and timers still have other objects run. `Controller(selector=)` chooses
    objects. Raises ValueError for what is not a selector.
    """
    chosen = selects(labels, fields)
    return Predicate(lambda old, new: any(state is not None and chosen(state) for state in (new, old)))


def _both(one: Verdict, test: Test, old: Snapshot | None, new: Snapshot | None) -> Verdict:
    if one is False:
        return False
    two = test(old, new)
    return False if two is False else None if one is None else two


@frozen
class _Either:
    """Yes where one of the tests says yes, no where each of them says no."""

    tests: Sequence[Test]

    def __call__(self, old: Snapshot | None, new: Snapshot | None) -> Verdict:
        verdict: Verdict = False
        for test in self.tests:
            one = test(old, new)
            if one:
                return True
            if one is None:
                verdict = None
        return verdict


def _alternatives(predicate: Predicate) -> Sequence[Test]:
    """The tests of an `|`; it is asked at each event, and one loop costs less than calls within calls."""
    return predicate.test.tests if isinstance(predicate.test, _Either) else (predicate.test,)


def _opposite(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict


replaced = updates(lambda old, new: not old.is_same_object(new))
"""Deleted and created again: the name is the same, the object is another. Always wakes a controller."""

version = updates(lambda old, new: old.version != new.version)
"""Any change at all, but for a resync."""

generation = updates(lambda old, new: old.generation != new.generation or new.generation is None)
"""The spec, as the server counts its changes. A kind that has no generation changes with every version."""

labels = updates(lambda old, new: old.labels != new.labels)
"""A label."""

annotations = updates(lambda old, new: old.annotations_hash != new.annotations_hash)
"""An annotation."""

deletion = updates(lambda old, new: old.deletion_timestamp != new.deletion_timestamp)
"""Deletion was asked for."""

finalizers = updates(lambda old, new: old.finalizers != new.finalizers)
"""Who holds it."""

default = generation | replaced | deletion | finalizers | labels | annotations
"""What a controller wakes on where it does not say: all but the status. Its own status never wakes it."""
