"""An incident that really happened, played again: once on the original's logic, once on ours.

Bundled controllers offer theirs under the entry-point group `reconcile.incidents`; `reconcile demo`
finds them there and never imports a controller itself.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

import attrs
from attrs import field, frozen

from informers import Clock, SystemClock, Transport
from reconcile.controller.entry_points import INCIDENTS, entries, load

Logic: TypeAlias = Literal["ours", "original"]
"""Whose planning an incident is played with."""
Report: TypeAlias = Callable[[str], None]
"""Takes a line about what is going on."""


@frozen
class Verdict:
    """What an observer counted while an incident was played.

    `ok` says whether what must hold held. Fields that do not apply to an incident are None.
    """

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
class Stage:
    """What an incident is played on.

    `transport` is the way of the controllers to the server, `observer` a second, independent one
    over HTTPS; `namespace` is the incident's own, made and empty; `report` takes one line on what
    happens now; `clock` is where wall time and chance come from.
    """

    transport: Transport
    observer: Transport
    namespace: str
    report: Report
    clock: Clock = field(factory=SystemClock)


@frozen
class Incident:
    """A named incident. `play` stages it with one of the two logics, and counts what comes of it.

    `seconds` is about how long both logics take together: of several incidents the longest starts first.
    """

    name: str
    title: str
    play: Callable[[Stage, Logic], Awaitable[Verdict]]
    seconds: float = 0.0


def bundled_incidents() -> Mapping[str, Incident]:
    """The incidents of every installed distribution, by name."""
    return {entry.name: load(entry) for entry in entries(INCIDENTS)}
