"""What the status page needs of every object, read from its JSON without decoding the rest of it."""

import datetime
from collections.abc import Sequence
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


class _Condition(msgspec.Struct, rename="camel", gc=False):
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
        """The first conditions, as `Type=Status`."""
        return [str(condition) for condition in self.facts.conditions[:CONDITIONS_SHOWN]]


_AT_REST: Final = health_of(HealthFacts(ran=True))
_NEW: Final = health_of(HealthFacts())


def health_at(snapshot: Snapshot, ran: bool, error: str, secret: bool) -> ObjectHealth:
    """How an object does. It is asked of all objects at once, so most of them need no facts.

    `ran` and `error` are those of `HealthFacts`; `secret`: its conditions are not to be shown.
    """
    seen = _seen(snapshot)
    if seen is not None and not error and not snapshot.terminating:
        status = seen.status
        if status is None or (status.conditions is None and status.observed_generation is None):
            return _AT_REST if ran else _NEW
    return health_of(_facts(snapshot, seen, ran, error, secret))


def glance_at(snapshot: Snapshot, ran: bool, error: str, secret: bool) -> Glance:
    """All that a row says of an object, whatever a tenant has put into that."""
    seen = _seen(snapshot)
    created = None if seen is None or seen.metadata is None else seen.metadata.creation_timestamp
    return Glance(_facts(snapshot, seen, ran, error, secret), _unix(created))


def _seen(snapshot: Snapshot) -> _Object | None:
    """None for a status of another form than all others have, and for JSON that is nested too deeply."""
    try:
        return _decoder.decode(snapshot.raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _facts(snapshot: Snapshot, seen: _Object | None, ran: bool, error: str, secret: bool) -> HealthFacts:
    status = _Status() if seen is None else seen.status or _Status()
    observed = status.observed_generation
    conditions: Sequence[SeenCondition] = [
        seen_condition(one.type, one.status, one.reason or "", one.observed_generation)
        for one in (status.conditions or ())[:CONDITIONS_READ]
    ]
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
