"""How the demo shows the incidents: a live table on a terminal, plain lines everywhere else."""

from collections.abc import Iterator, Sequence

import anyio
from attrs import define, field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconcile.commands.incident_play import IncidentPlay, SideResult, SideRunning
from reconcile.commands.screens import showing

_REFRESH = 0.25
_WIDE = 100
"""Columns from which the counts of a side fit on one line."""
_NARROW = 70
"""Columns below which the two sides stand below the name instead of beside it."""


async def keep_showing(console: Console, plays: Sequence[IncidentPlay]) -> None:
    """Refresh until cancelled, and once more then; lines of progress are followed by the results."""
    lines = _ProgressLines(console, plays)

    def render(plays: Sequence[IncidentPlay]) -> Table:
        return incident_table(plays, anyio.current_time(), console.width)

    with showing(console, render, lines.refresh) as show:
        try:
            while True:
                show(plays)
                await anyio.sleep(_REFRESH)
        finally:
            show(plays)
            lines.print_results()


def incident_table(plays: Sequence[IncidentPlay], time: float, width: int) -> Table:
    if width < _NARROW:
        return _narrow_table(plays, time)
    table = Table(box=None, expand=True, padding=(0, 2, 1, 0), show_edge=False)
    table.add_column("incident", ratio=1, no_wrap=True, overflow="ellipsis")
    for side in ("original", "ours"):
        table.add_column(side, width=22 if width >= _WIDE else 12)
    table.add_column("verdict", width=7)
    for play in plays:
        original, ours = (
            side if width >= _WIDE else side.replace(", ", ",\n") for side in _sides(play, time)
        )
        table.add_row(
            Text.assemble((play.incident.name, "bold"), "\n", (play.now, "dim")),
            original,
            Text("sabotaged:\n" if play.sabotaged else "").append(ours),
            _verdict(play),
        )
    return table


def _narrow_table(plays: Sequence[IncidentPlay], time: float) -> Table:
    table = Table(box=None, expand=True, padding=(0, 2, 1, 0), show_edge=False, show_header=False)
    table.add_column(ratio=1)
    table.add_column(width=7)
    for play in plays:
        sides = "\n".join(_named_sides(play, time))
        table.add_row(
            Text.assemble((play.incident.name, "bold"), f"\n{sides}\n", (play.now, "dim")), _verdict(play)
        )
    return table


def _sides(play: IncidentPlay, time: float) -> tuple[str, str]:
    return _side(play.original, time), _side(play.ours, time)


def _side(side: SideRunning | SideResult | None, time: float) -> str:
    match side:
        case None:
            return "-"
        case SideRunning(since):
            return f"playing {time - since:.0f} s"
        case SideResult(verdict, broken):
            return "broke" if broken else verdict.counts() or ("ok" if verdict.ok else "not ok")


def _named_sides(play: IncidentPlay, time: float) -> tuple[str, str]:
    original, ours = _sides(play, time)
    return f"original: {original}", f"{'ours, sabotaged' if play.sabotaged else 'ours'}: {ours}"


def _verdict(play: IncidentPlay) -> Text:
    if not play.finished:
        return Text("...")
    return Text("holds", "bold green") if play.holds else Text("FAILED", "bold red")


@define
class _ProgressLines:
    console: Console
    plays: Sequence[IncidentPlay]
    _shown: dict[str, str] = field(factory=dict)
    _started: float = field(factory=anyio.current_time)

    def print_results(self) -> None:
        """In order, if lines were printed: those of progress came in any order."""
        if self._shown:
            self._print("")
        for play, name in self._named():
            if name in self._shown and play.finished:
                self._print(f"{name}  {result_line(play)}")

    def refresh(self, _: Sequence[IncidentPlay]) -> None:
        seconds = anyio.current_time() - self._started
        for play, name in self._named():
            if play.original is not None and self._shown.get(name) != play.now:
                self._shown[name] = play.now
                self._print(f"{seconds:6.1f} s  {name}  {play.now}")

    def _named(self) -> Iterator[tuple[IncidentPlay, str]]:
        width = max((len(play.incident.name) for play in self.plays), default=0)
        return ((play, play.incident.name.ljust(width)) for play in self.plays)

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)


def result_line(play: IncidentPlay) -> str:
    """`original: 3 deleted, 2 created | ours: 1 deleted, 0 created | holds`."""
    return " | ".join((*_named_sides(play, 0), _verdict(play).plain))
