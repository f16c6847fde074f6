"""What the status page needs of every object, read from its JSON without decoding the rest of it."""

import datetime
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from attrs import frozen

from informers import Snapshot
from reconcile.status.object_health import (
    CONDITIONS_READ,
    HealthFacts,
    ObjectHealth,
    SeenCondition,
    facts_in,
    health_of,
    seen_condition,
)

CONDITIONS_SHOWN: Final = 8


class _Condition(msgspec.Struct, rename="camel", gc=False, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    observed_generation: int | None = None


class _Status(msgspec.Struct, rename="camel", gc=False):
    conditions: list[_Condition] | None = None
    observed_generation: int | None = None


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    creation_timestamp: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_Object)


@frozen
class Glance:
    """`created` is in Unix seconds; None where the object does not say it."""

    facts: HealthFacts
    created: float | None

    @property
    def conditions(self) -> list[str]:
        """The first conditions, as `Type=Status`; those without a type left out."""
        return [str(each) for each in self.facts.conditions if each.type][:CONDITIONS_SHOWN]


_SMALL: Final = 4096
"""Bytes of an object whose conditions may be kept as a key: what is larger may be hostile."""


def health_at(snapshot: Snapshot, ran: bool, error: str, secret: bool) -> ObjectHealth:
    """How an object does. It is asked of all objects at once, and most of them are alike.

    `ran` and `error` are those of `HealthFacts`; `secret`: its conditions are not to be shown.
    """
    raw = snapshot.raw
    seen = _seen(raw)
    if seen is None or error or secret or len(raw) > _SMALL:
        return health_of(_facts(snapshot, seen, ran, error, secret))
    status, terminating = seen.status, snapshot.terminating
    if status is None or (status.conditions is None and status.observed_generation is None):
        return _health(terminating, 0, None, (), ran)
    conditions = () if status.conditions is None else tuple(status.conditions[:CONDITIONS_READ])
    return _health(terminating, snapshot.generation or 0, status.observed_generation, conditions, ran)


@lru_cache(maxsize=1024)
def _health(
    deleting: bool, generation: int, observed: int | None, conditions: tuple[_Condition, ...], ran: bool
) -> ObjectHealth:
    return health_of(HealthFacts(deleting, generation, observed, _seen_conditions(conditions), ran=ran))


def glance_at(snapshot: Snapshot, ran: bool, error: str, secret: bool) -> Glance:
    """All that a row says of an object, whatever a tenant has put into that."""
    seen = _seen(snapshot.raw)
    created = None if seen is None or seen.metadata is None else seen.metadata.creation_timestamp
    return Glance(_facts(snapshot, seen, ran, error, secret), _unix(created))


def _seen(raw: bytes) -> _Object | None:
    """None for a status of another form than all others have, and for JSON that is nested too deeply."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _facts(snapshot: Snapshot, seen: _Object | None, ran: bool, error: str, secret: bool) -> HealthFacts:
    status = _Status() if seen is None else seen.status or _Status()
    observed = status.observed_generation
    conditions = _seen_conditions((status.conditions or ())[:CONDITIONS_READ])
    if seen is None:
        whole = _decoded(snapshot)
        observed, conditions = whole.observed, whole.conditions
    return HealthFacts(
        snapshot.terminating,
        snapshot.generation or 0,
        observed,
        () if secret else conditions,
        ran=ran,
        error=error,
    )


def _seen_conditions(conditions: Iterable[_Condition]) -> Sequence[SeenCondition]:
    return [
        seen_condition(one.type, one.status, one.reason or "", one.observed_generation) for one in conditions
    ]


def _decoded(snapshot: Snapshot) -> HealthFacts:
    try:
        return facts_in(snapshot.to_dict())
    except (msgspec.DecodeError, RecursionError):
        return HealthFacts()


def _unix(text: str | None) -> float | None:
    try:
        return None if text is None else datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
