"""Viewers of a manager's status page, without a server: in virtual time, or in a test's own loop."""

import json
from collections.abc import Iterator
from typing import Any

import anyio
from attrs import define, field, frozen

from reconcile import Manager
from reconcile.controller.run_ends import RunEnds
from reconcile.status.object_health import HEALTHS
from reconcile.status.status_board import BoardSources, StatusBoard
from reconcile.status.status_stream import Viewer


@frozen
class Row:
    """A row as it was sent."""

    id: int
    controller: int
    key: str
    health: int
    reason: str
    state: str
    sentence: str
    created: float | None
    ended: float | None
    failures: int
    next_at: float | None
    conditions: list[str]

    @property
    def word(self) -> str:
        return HEALTHS[self.health]


def events_in(text: bytes) -> Iterator[tuple[str, Any]]:
    """The events of a part of a stream, by name."""
    for block in text.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            name, data = lines
            assert name.startswith("event: ")
            assert data.startswith("data: ")
            yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@define
class SeenPage:
    """What a page knows that takes all events of a stream."""

    hello: Any = None
    overview: Any = None
    rows: dict[int, Row] = field(factory=dict)
    complete: bool = False
    events: list[tuple[str, Any]] = field(factory=list)

    def take(self, text: bytes) -> None:
        for name, data in events_in(text):
            self.events.append((name, data))
            if name == "hello":
                self.hello, self.complete = data, False
                self.rows.clear()
            elif name == "overview":
                self.overview = data
            else:
                assert name == "rows"
                assert data["first"] == (not self.complete and not self.rows) or self.complete
                for values in data["rows"]:
                    row = Row(*values)
                    self.rows[row.id] = row
                for gone in data["gone"]:
                    self.rows.pop(gone, None)
                self.complete = self.complete or data["last"]

    def of(self, key: str, controller: int = 0) -> Row | None:
        found = [row for row in self.rows.values() if (row.key, row.controller) == (key, controller)]
        assert len(found) < 2
        return found[0] if found else None


@define
class Watching:
    """A viewer, and the page that it fills."""

    viewer: Viewer
    page: SeenPage = field(factory=SeenPage)

    async def until_complete(self) -> SeenPage:
        while not self.page.complete:
            self.page.take(await self.viewer.next())
        return self.page

    async def until(self, holds: Any, seconds: float = 30) -> SeenPage:
        """Take events until `holds(page)`."""
        with anyio.fail_after(seconds):
            while not holds(self.page):
                self.page.take(await self.viewer.next())
        return self.page

    async def during(self, seconds: float) -> SeenPage:
        """Take the events of so many seconds."""
        with anyio.move_on_after(seconds):
            while True:
                self.page.take(await self.viewer.next())
        return self.page


def board_of(manager: Manager, **sources: Any) -> StatusBoard:
    """The board of a manager that need not serve."""
    for runner in manager._runners:
        runner.history.ends = runner.history.ends or RunEnds()
    return StatusBoard(
        BoardSources(
            status=manager.status,
            runners=lambda: manager._runners,
            replica=lambda: manager._replica,
            clock=manager.options["clock"],
            version="1.2.3",
            name=manager.options["name"],
            identity=lambda: "me",
            **sources,
        )
    )


def watching(board: StatusBoard, *, actions: bool = True) -> Watching:
    return Watching(Viewer(board, actions))
