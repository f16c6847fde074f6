"""Events expire an hour after they were written."""

import datetime
from collections import deque

from attrs import define, field, frozen

from informers.resource import Key
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StorageKey, Stored, StoredChange

EVENTS: StorageKey = ("", "events")
# kube-apiserver's default of --event-ttl.
EVENT_LIFETIME = datetime.timedelta(hours=1)


@frozen
class _Expiry:
    due: datetime.datetime
    key: Key
    version: int


@define(eq=False)
class EventExpiry:
    _engine: Engine
    _expiries: deque[_Expiry] = field(factory=deque, init=False)
    resumed: int = field(default=0, init=False)
    """The version with which an earlier run ended."""

    def take_over(self, other: "EventExpiry") -> None:
        self._expiries = deque(other._expiries)

    def note(self, change: StoredChange) -> None:
        """Remember when an event that was written expires."""
        if change.resource == EVENTS and change.new is not None:
            due = self._written(change.new) + EVENT_LIFETIME
            self._expiries.append(_Expiry(due, change.key, change.new.version))

    def _written(self, event: Stored) -> datetime.datetime:
        """When an event was written: now, unless it comes from an earlier run."""
        now = self._engine.clock.now()
        if event.version > self.resumed:
            return now
        metadata = event.decode()["metadata"]
        times = [
            metadata.get("creationTimestamp"),
            *(one.get("time") for one in metadata.get("managedFields", ())),
        ]
        return max((datetime.datetime.fromisoformat(time) for time in times if time), default=now)

    def expire(self) -> None:
        """Remove the events whose time has come, unless they were written again."""
        if not self._expiries:
            return
        now = self._engine.clock.now()
        while self._expiries and self._expiries[0].due <= now:
            expiry = self._expiries.popleft()
            stored = self._engine.log.get(EVENTS, expiry.key)
            if stored is not None and stored.version == expiry.version:
                self._engine.remove(EVENTS, expiry.key)

    def seconds_to_next(self) -> float | None:
        """Until the next event expires; None if there is none."""
        if not self._expiries:
            return None
        return max(0.0, (self._expiries[0].due - self._engine.clock.now()).total_seconds())
