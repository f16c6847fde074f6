"""What an operator owes its users, as values for a scenario: `leads_to`, `always_holds`, `eventually_holds`.

An obligation is opened by a change of an object on the server, and met by that state of the object or a later
one. The newest change counts: if a spec changes again, nothing is owed any more for what it was before.
Whenever the world comes to rest, and where a run ends in a loop, nothing may be open. An object that is to be
deleted owes nothing but its end.

This is Lamport's "P leads to Q". It can be judged in a run that ends because the run is judged only where it
cannot go on by itself: at rest, or in a loop that leads back to where it began (`livelocks`).
"""

from collections.abc import Callable, Mapping
from inspect import isclass
from typing import Any, TypeAlias

from attrs import frozen

from reconcile.models import Object, decode
from reconcile.testing.world import World

Body: TypeAlias = Mapping[str, Any]
"""An object as JSON, in the version of its class."""

ObjectTest: TypeAlias = Callable[[Any], bool]
"""A function of an object of the author's class."""
WorldTest: TypeAlias = Callable[[World], bool]

# `Stalled` is the word of kstatus for what will not go on by itself.
_ANSWERS = ("Ready", "Available", "Complete", "Succeeded", "Failed", "Stalled")


@frozen
class ObjectPredicate:
    """What may hold of an object; `|`, `&` and `~` combine it. `holds` gets None where the object is gone.

    With `outlives`, it is asked for even of an object that is to be deleted.
    """

    name: str
    holds: Callable[[Body | None], bool]
    outlives: bool = False

    def __or__(self, other: "ObjectPredicate") -> "ObjectPredicate":
        return ObjectPredicate(
            f"{self.name} or {other.name}",
            lambda body: self.holds(body) or other.holds(body),
            self.outlives or other.outlives,
        )

    def __and__(self, other: "ObjectPredicate") -> "ObjectPredicate":
        return ObjectPredicate(
            f"{self.name} and {other.name}",
            lambda body: self.holds(body) and other.holds(body),
            self.outlives and other.outlives,
        )

    def __invert__(self) -> "ObjectPredicate":
        return ObjectPredicate(f"not {self.name}", lambda body: not self.holds(body), self.outlives)

    def __str__(self) -> str:
        return self.name


@frozen
class Trigger:
    """A change of an object of `kind` that opens an obligation; `opens` gets its states before and after."""

    kind: type[Object]
    name: str
    opens: Callable[[Body | None, Body], bool]

    def __str__(self) -> str:
        return self.name


@frozen
class ObjectObligation:
    """What each object of `kind` owes: `outcome`, always (without a `trigger`), or some time after it.

    With `within`, in so many seconds.
    """

    name: str
    kind: type[Object]
    trigger: Trigger | None
    outcome: ObjectPredicate
    within: float | None = None


@frozen
class WorldObligation:
    """What the world owes: `outcome`, always (without a `trigger`), or some time after `trigger` held."""

    name: str
    trigger: WorldTest | None
    outcome: WorldTest
    within: float | None = None


Obligation: TypeAlias = ObjectObligation | WorldObligation


# --- obligations ----------------------------------------------------------------------------------


def leads_to(
    trigger: Trigger | WorldTest,
    outcome: ObjectPredicate | ObjectTest | WorldTest,
    *,
    within: float | None = None,
    name: str = "",
) -> Obligation:
    """Each time that `trigger` happens, `outcome` must hold of the same object later, or at that moment.

    It must hold before the world is at rest, or goes round in a loop, and `within` seconds if given. For a
    trigger of one kind, `outcome` is a predicate, or a function of an object of its class. A trigger that is
    a function of the `World` counts when it becomes true, and so does its `outcome`. The `name` is that of
    the invariant that a story says is broken. Raises ValueError for seconds that are not positive, and
    TypeError for an outcome that does not fit the trigger.
    """
    _check_seconds(within)
    if isinstance(trigger, Trigger):
        wanted = _predicate(trigger.kind, outcome)
        return ObjectObligation(name or f"{trigger} leads to {wanted}", trigger.kind, trigger, wanted, within)
    if isinstance(outcome, ObjectPredicate):
        raise TypeError(
            f"leads_to: {outcome} is about an object, and the trigger about the world: give a trigger of its "
            "kind, such as spec_changed(Site)"
        )
    return WorldObligation(name or f"{_name(trigger)} leads to {_name(outcome)}", trigger, outcome, within)


def always_holds(
    predicate: ObjectPredicate | ObjectTest | WorldTest, *, of: type[Object] | None = None, name: str = ""
) -> Obligation:
    """After each change, `predicate` holds of every object of the kind `of`; without it, of the `World`."""
    if of is None:
        return WorldObligation(name or f"always {_name(predicate)}", None, _of_world(predicate))
    wanted = _predicate(of, predicate)
    return ObjectObligation(name or f"{of.__name__} always {wanted}", of, None, wanted)


def eventually_holds(
    predicate: ObjectPredicate | ObjectTest | WorldTest,
    *,
    of: type[Object] | None = None,
    within: float | None = None,
    name: str = "",
) -> Obligation:
    """At some time, `predicate` holds of each object of the kind `of`; without it, of the `World`.

    `within` so many seconds, if given: since the creation of the object, or since the beginning of the run.
    """
    _check_seconds(within)
    if of is None:
        wanted = _of_world(predicate)
        return WorldObligation(name or f"eventually {_name(predicate)}", lambda _: True, wanted, within)
    outcome = _predicate(of, predicate)
    return ObjectObligation(name or f"{of.__name__} eventually {outcome}", of, created(of), outcome, within)


# --- triggers -------------------------------------------------------------------------------------


def spec_changed(kind: type[Object]) -> Trigger:
    """An object was created, or has a new generation; without generations, other content than before."""
    return Trigger(kind, f"spec_changed({kind.__name__})", _is_other_spec)


def created(kind: type[Object]) -> Trigger:
    """An object was created; those that exist when a run begins are created then."""
    return Trigger(kind, f"created({kind.__name__})", lambda old, new: not _is_same(old, new))


def deletion_asked(kind: type[Object]) -> Trigger:
    """The deletion of an object was requested, and a finalizer still holds it."""
    return becomes(kind, _terminating)


def becomes(kind: type[Object], predicate: ObjectPredicate | ObjectTest) -> Trigger:
    """A predicate holds of an object, and did not hold before."""
    wanted = _predicate(kind, predicate)

    def opens(old: Body | None, new: Body) -> bool:
        before = _is_same(old, new) and wanted.holds(old)
        return wanted.holds(new) and not before

    return Trigger(kind, f"{kind.__name__} becomes {wanted}", opens)


def _is_same(old: Body | None, new: Body) -> bool:
    return old is not None and bool(old["metadata"].get("uid") == new["metadata"].get("uid"))


def _is_other_spec(old: Body | None, new: Body) -> bool:
    if old is None or not _is_same(old, new):
        return True
    generations = [body["metadata"].get("generation") for body in (old, new)]
    if generations[1] is not None:
        return bool(generations[0] != generations[1])
    return _content(old) != _content(new)


def _content(body: Body) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("metadata", "status")}


# --- predicates -----------------------------------------------------------------------------------


def condition(name: str, status: str | bool = True) -> ObjectPredicate:
    """The condition of type `name` has that status, for the present generation as far as it says."""
    wanted = str(status)
    return ObjectPredicate(
        f"{name} is {wanted}", lambda body: body is not None and _conditions(body).get(name) == wanted
    )


deleted = ObjectPredicate("deleted", lambda body: body is None, outlives=True)
"""The object is gone."""

ready_or_failed = ObjectPredicate(
    "ready or failed",
    lambda body: body is not None and any(_conditions(body).get(name) == "True" for name in _ANSWERS),
)
"""A condition `Ready`, `Available`, `Complete`, `Succeeded`, `Failed` or `Stalled` is true of the present
generation: users can go on, or know that they have to do something."""


def is_terminating(body: Body | None) -> bool:
    """Whether an object is to be deleted, and still there."""
    return body is not None and "deletionTimestamp" in body["metadata"]


_terminating = ObjectPredicate("to be deleted", is_terminating, outlives=True)


def conditions_in_words(body: Body) -> str:
    """What its conditions are, without their messages, which may quote secrets."""
    status = body.get("status") or {}
    found = [one for one in status.get("conditions") or () if isinstance(one, Mapping)]
    told = [f"{one.get('type')} is {one.get('status')}" for one in found]
    generation, observed = body["metadata"].get("generation"), status.get("observedGeneration")
    if observed is not None and observed != generation:
        told.append(f"generation {observed} is observed, the present one is {generation}")
    return ", ".join(told) or "it has no conditions"


def _conditions(body: Body) -> Mapping[str, str]:
    """The status of each condition that has observed the present generation, as far as it says."""
    status = body.get("status") or {}
    generation = body["metadata"].get("generation")
    found: dict[str, str] = {}
    for one in status.get("conditions") or ():
        if isinstance(one, Mapping):
            observed = one.get("observedGeneration", status.get("observedGeneration"))
            if None in (observed, generation) or observed >= generation:
                found[str(one.get("type"))] = str(one.get("status"))
    return found


# --- functions ------------------------------------------------------------------------------------


def _predicate(kind: type[Object], test: ObjectPredicate | ObjectTest) -> ObjectPredicate:
    if isinstance(test, ObjectPredicate):
        return test
    if isclass(test) or not callable(test):
        raise TypeError(f"expected a predicate or a function of a {kind.__name__}, got {test!r}")
    return ObjectPredicate(_name(test), lambda body: body is not None and bool(test(decode(kind, body))))


def _of_world(test: ObjectPredicate | ObjectTest | WorldTest) -> WorldTest:
    if isinstance(test, ObjectPredicate):
        raise TypeError(f"{test} is about an object: say of which kind, as of=Site")
    return test


def _check_seconds(within: float | None) -> None:
    if within is not None and not within > 0:
        raise ValueError(f"expected a positive number of seconds for within=, got {within}")


def _name(test: Any) -> str:
    return test.name if isinstance(test, ObjectPredicate) else getattr(test, "__name__", str(test))
