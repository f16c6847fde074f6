"""How the demo shows the incidents: a live table on a terminal, plain lines everywhere else."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import anyio
from attrs import define, field
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reconcile.commands.incident_play import IncidentPlay, SideResult, SideRunning

_REFRESH = 0.25
_NARROW = 100


class DemoScreen(Protocol):
    """Where the demo shows how far the incidents are."""

    def showing(self) -> AbstractContextManager[object]:
        """While inside, `refresh` may be called."""
        ...

    def refresh(self, plays: Sequence[IncidentPlay]) -> None:
        """Show how far they are now."""
        ...


def make_screen(console: Console) -> DemoScreen:
    """The table, or plain lines where the console is no terminal."""
    is_live = console.is_terminal and not console.is_dumb_terminal
    return _LiveTable(console) if is_live else _ProgressLines(console)


async def keep_showing(screen: DemoScreen, plays: Sequence[IncidentPlay]) -> None:
    """Refresh until cancelled, and once more then."""
    with screen.showing():
        try:
            while True:
                screen.refresh(plays)
                await anyio.sleep(_REFRESH)
        finally:
            screen.refresh(plays)


@define
class _LiveTable:
    console: Console
    _live: Live = field(init=False)

    def showing(self) -> AbstractContextManager[object]:
        self._live = Live(console=self.console, auto_refresh=False)
        return self._live

    def refresh(self, plays: Sequence[IncidentPlay]) -> None:
        self._live.update(incident_table(plays, anyio.current_time(), self.console.width), refresh=True)


def incident_table(plays: Sequence[IncidentPlay], time: float, width: int) -> Table:
    """Two lines an incident: what it is and what happens now, what the original did, what ours did."""
    narrow = width < _NARROW
    counts = 12 if narrow else 22
    table = Table(box=None, expand=True, padding=(0, 2, 1, 0), show_edge=False)
    table.add_column("incident", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("original", width=counts)
    table.add_column("ours", width=counts)
    table.add_column("verdict", width=7)
    for play in plays:
        ours = Text("sabotaged:\n") if play.sabotaged else Text()
        table.add_row(
            Text.assemble((play.incident.name, "bold"), "\n", (play.now, "dim")),
            _folded(_side(play.original, time), narrow),
            ours.append(_folded(_side(play.ours, time), narrow)),
            _verdict(play),
        )
    return table


def _folded(counts: str, narrow: bool) -> str:
    return counts.replace(", ", ",\n") if narrow else counts


def _side(side: SideRunning | SideResult | None, time: float) -> str:
    match side:
        case None:
            return "-"
        case SideRunning(since):
            return f"playing {time - since:.0f} s"
        case SideResult(verdict, broken):
            return "broke" if broken else verdict.counts() or ("ok" if verdict.ok else "not ok")


def _verdict(play: IncidentPlay) -> Text:
    if not play.finished:
        return Text("...")
    return Text("holds", "bold green") if play.holds else Text("FAILED", "bold red")


@define
class _ProgressLines:
    console: Console
    _shown: dict[str, str] = field(factory=dict)
    _started: float | None = None

    def showing(self) -> AbstractContextManager[object]:
        return nullcontext()

    def refresh(self, plays: Sequence[IncidentPlay]) -> None:
        if self._started is None:
            self._started = anyio.current_time()
        for play in plays:
            line = result_line(play) if play.finished else play.now
            if self._shown.get(play.incident.name) != line:
                self._shown[play.incident.name] = line
                seconds = anyio.current_time() - self._started
                self.console.print(
                    f"{seconds:6.1f} s  {play.incident.name}: {line}", soft_wrap=True, markup=False
                )


def result_line(play: IncidentPlay) -> str:
    """`original: 3 deleted, 2 created | ours: 1 deleted, 0 created | holds`."""
    ours = "ours, sabotaged" if play.sabotaged else "ours"
    sides = f"original: {_side(play.original, 0)} | {ours}: {_side(play.ours, 0)}"
    return f"{sides} | {_verdict(play).plain}"
