"""Incidents that happened to operators, played again: once with the original's logic, once with ours.

Controllers register theirs in the entry-point group `reconcile.incidents`, where `reconcile demo` finds them.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import attrs
from attrs import field, frozen

from informers import Clock, SystemClock, Transport
from reconcile.client.client import Client
from reconcile.controller.entry_points import INCIDENTS, entries, load

Logic: TypeAlias = Literal["ours", "original"]
"""Whose logic an incident is played with."""


@frozen
class IncidentVerdict:
    """What an observer counted; `ok`: the incident's invariant held. Fields that do not apply are None."""

    ok: bool
    deleted: int | None = None
    created: int | None = None
    writes: int | None = None
    seconds: float = 0.0
    explanation: str = ""

    def to_json(self) -> dict[str, object]:
        """The fields that apply."""
        return {name: value for name, value in attrs.asdict(self).items() if value not in (None, "")}

    def counts(self) -> str:
        """`1 deleted, 0 created`, for a table."""
        words = (("deleted", self.deleted), ("created", self.created), ("writes", self.writes))
        return ", ".join(f"{number} {word}" for word, number in words if number is not None)


@frozen
class IncidentStage:
    """What an incident is played on. `namespace` is the incident's own, and empty at first.

    `transport` is that of the controllers, `observer` an independent one over HTTPS. `report` gets a line for
    each thing that happens. `clock` gives wall time and random numbers.
    """

    transport: Transport
    observer: Transport
    namespace: str
    report: Callable[[str], None]
    clock: Clock = field(factory=SystemClock)

    @property
    def user(self) -> Client:
        """A client for what the users of the incident do."""
        return Client(self.observer, field_manager="demo-user", clock=self.clock)

    @property
    def manager_options(self) -> dict[str, Any]:
        """The options of a manager on this stage, besides its transport."""
        return {"namespace": self.namespace, "clock": self.clock, "stop_seconds": 1.0}

    def seed(self) -> int:
        """A seed for a transport with late watches."""
        return int(self.clock.random() * 2**32)


@frozen
class Incident:
    """A named incident to `play` with either logic; both take `seconds`, and the longest start first."""

    name: str
    title: str
    play: Callable[[IncidentStage, Logic], Awaitable[IncidentVerdict]]
    seconds: float = 0.0


def bundled_incidents() -> Mapping[str, Incident]:
    """The incidents of every installed distribution, by name."""
    return {entry.name: load(entry) for entry in entries(INCIDENTS)}
