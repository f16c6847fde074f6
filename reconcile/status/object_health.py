"""How an object does, in one word: by its conditions and its generation, and by the last run of its key.

The words follow kstatus where that has a word: https://github.com/kubernetes-sigs/cli-utils (pkg/kstatus).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from attrs import frozen

from reconcile.controller.run_history import PastRun

HEALTHS: Final = ("failing", "deleting", "progressing", "waiting", "healthy")
"""From the one to look at first to the one to leave alone."""

REASON_CHARACTERS: Final = 200
CONDITIONS_READ: Final = 20
"""Conditions of an object that count: there are few, unless a tenant makes them up."""
_TYPE_CHARACTERS = 60

_BROKEN: Final = ("Stalled", "Failed", "Degraded")
_MOVING: Final = ("Progressing", "Reconciling")
_READY: Final = ("Ready", "Available")
"""The first that an object has says whether it is ready: Deployments have no Ready."""


class ObjectHealth(NamedTuple):
    """One of HEALTHS, and why: words for people, empty where there is nothing to say."""

    health: str
    reason: str


class SeenCondition(NamedTuple):
    """A condition as its object says it. `observed` is the generation that it is about, if it says so."""

    type: str
    status: str
    reason: str = ""
    observed: int | None = None

    def __str__(self) -> str:
        return f"{self.type}={self.status}"

    @property
    def said(self) -> str:
        return f"{self}: {self.reason}" if self.reason else str(self)


@frozen
class HealthFacts:
    """What the health of an object depends on. `observed` is status.observedGeneration, if there is one.

    `ran`: a run of its key has ended here, the last one with `error` (redacted) unless that is empty.
    """

    deleting: bool = False
    generation: int = 0
    observed: int | None = None
    conditions: Sequence[SeenCondition] = ()
    ran: bool = False
    error: str = ""


def health_of(facts: HealthFacts) -> ObjectHealth:
    """The first that holds of HEALTHS, as the how-to about the page explains them."""
    if facts.error:
        return ObjectHealth("failing", short(facts.error))
    known = {condition.type: condition for condition in facts.conditions}
    broken = _first(known, _BROKEN, "True")
    if broken is not None:
        return ObjectHealth("failing", short(broken.said))
    if facts.deleting:
        return ObjectHealth("deleting", "")
    moving = _moving(facts, known)
    if moving:
        return ObjectHealth("progressing", short(moving))
    ready = _readiness(known)
    if ready is not None or facts.ran:
        return ObjectHealth("healthy", "")
    return ObjectHealth("waiting", "has not run here")


def health_of_object(obj: Mapping[str, Any] | None, last: PastRun | None) -> ObjectHealth:
    """The same of a decoded object and the last run of its key; None: no object, no run here."""
    facts = facts_in(obj or {})
    if last is None:
        return health_of(facts)
    return health_of(
        HealthFacts(
            facts.deleting, facts.generation, facts.observed, facts.conditions, ran=True, error=last.error
        )
    )


def facts_in(obj: Mapping[str, Any]) -> HealthFacts:
    """What a decoded object says of itself. Anything may be in it: what is of another type is left out."""
    metadata, status = _mapping(obj.get("metadata")), _mapping(obj.get("status"))
    listed = status.get("conditions")
    conditions = listed[:CONDITIONS_READ] if isinstance(listed, list) else []
    return HealthFacts(
        deleting=bool(metadata.get("deletionTimestamp")),
        generation=_number(metadata.get("generation")) or 0,
        observed=_number(status.get("observedGeneration")),
        conditions=[_condition(_mapping(one)) for one in conditions],
    )


def seen_condition(name: str, status: str, reason: str, observed: int | None) -> SeenCondition:
    """A condition with texts that fit a row, whatever an object has in them."""
    return SeenCondition(
        short(name, _TYPE_CHARACTERS), short(status, _TYPE_CHARACTERS), short(reason), observed
    )


def _condition(condition: Mapping[str, Any]) -> SeenCondition:
    return seen_condition(
        _text(condition.get("type")),
        _text(condition.get("status")),
        _text(condition.get("reason")),
        _number(condition.get("observedGeneration")),
    )


def short(text: str, most: int = REASON_CHARACTERS) -> str:
    """A text for a line of a page: cut, and without what JSON in UTF-8 cannot hold."""
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text if text.isascii() else text.encode(errors="replace").decode()  # lone surrogates


def _moving(facts: HealthFacts, known: Mapping[str, SeenCondition]) -> str:
    """What is still to come, if anything."""
    if facts.observed is not None and facts.observed < facts.generation:
        return f"generation {facts.generation} is not observed yet"
    ready = _readiness(known)
    if ready is None:
        moving = _first(known, _MOVING, "True")
        return "" if moving is None else moving.said
    if ready.status != "True":
        return ready.said
    if ready.observed is not None and ready.observed < facts.generation:
        return f"{ready} is of generation {ready.observed}"
    return ""


def _readiness(known: Mapping[str, SeenCondition]) -> SeenCondition | None:
    return next((known[name] for name in _READY if name in known), None)


def _first(known: Mapping[str, SeenCondition], names: Sequence[str], status: str) -> SeenCondition | None:
    return next((known[name] for name in names if name in known and known[name].status == status), None)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
