"""How `reconcile dev` shows what happens: one view on a terminal, plain lines everywhere else."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from attrs import define, field, frozen
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from reconcile.commands.top_command import summary
from reconcile.doctor.findings import printable

ROWS = 12


@frozen
class Shown:
    """The content of the screen. `state` is that of `/debug/state`, empty while no manager runs."""

    head: Sequence[str]
    note: str
    objects: Sequence[tuple[str, str, str]]
    """Kind, key and conditions of those that are shown."""
    state: Mapping[str, Any]
    keys: Set[tuple[str, str]] = frozenset()
    """Kind and key of objects that are there, also of those that are not shown."""
    verbose: bool = False
    """Whether tracebacks are shown."""


def view_of(shown: Shown) -> Group:
    told = summary(shown.state) if shown.state else {"controllers": (), "keys": ()}
    storms = list(storms_of(shown.state))
    return Group(
        *(Text(line) for line in shown.head),
        Text(shown.note, style="bold"),
        _table("object", ["kind", "key", "conditions"], shown.objects, "no objects yet: kubectl apply one"),
        _table(
            "queue",
            ["controller", "waiting", "running", "runs", "failures"],
            [
                [str(one[name]) for name in ("name", "waiting", "running", "runs", "failures")]
                for one in told["controllers"]
            ],
            "no manager runs",
        ),
        _table(
            "run",
            ["key", "result", "woken by", "runs a minute"],
            [
                [one["key"], one["last"], one["woken_by"], f"{one['runs_a_minute']:g}"]
                for one in told["keys"][:ROWS]
            ],
            "no runs yet",
        ),
        _table("error", ["controller", "error", "at", "times"], errors_of(shown.state), "no run has failed"),
        *(Text(line) for line in _tracebacks(shown)),
        _table("storm", ["controller", "key"], storms, "no storms"),
    )


def errors_of(state: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    return [
        (name, one["error"], one["at"], str(one["count"]))
        for name, told in state.get("controllers", {}).items()
        for one in reversed(told.get("errors", ()))
    ]


def _tracebacks(shown: Shown) -> Iterator[str]:
    for told in shown.state.get("controllers", {}).values():
        for one in told.get("errors", ())[-1:] if shown.verbose else ():
            yield f"\n{one['traceback'].rstrip()}"


def _table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> Table | Text:
    if not rows:
        return Text(f"\n{none}", style="dim")
    table = Table(box=None, pad_edge=False, title=f"{name}s", title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column.upper(), overflow="fold")
    for row in rows[:ROWS]:
        table.add_row(*(Text(printable(cell)) for cell in row))
    if len(rows) > ROWS:
        table.add_row(Text(f"and {len(rows) - ROWS} more", style="dim"))
    return table


def storms_of(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, one in state.get("controllers", {}).items():
        for key in one["storms"]:
            yield name, key


@define
class DevLines:
    console: Console
    _said: set[str] = field(factory=set)
    _note: str = ""
    _objects: dict[tuple[str, str], str] = field(factory=dict)

    def refresh(self, shown: Shown) -> None:
        for line in shown.head:
            self._once(line, line)
        if shown.note != self._note:
            self._note = shown.note
            self._say(shown.note)
        self._show_objects(shown)
        for line, name in runs_of(shown.state):
            self._once(line, name)
        for controller, key in storms_of(shown.state):
            self._once(f"storm: {controller} {key}", f"storm {controller} {key}")

    def _show_objects(self, shown: Shown) -> None:
        now = {(kind, key): conditions for kind, key, conditions in shown.objects}
        for (kind, key), conditions in now.items():
            if self._objects.get((kind, key)) != conditions:
                self._say(f"object: {kind} {key} {conditions}".rstrip())
        gone = self._objects.keys() - now.keys() - shown.keys
        for kind, key in gone:
            self._say(f"object: {kind} {key} was deleted")
            del self._objects[kind, key]
        self._objects |= now

    def _once(self, line: str, name: str) -> None:
        if name not in self._said:
            self._said.add(name)
            self._say(line)

    def _say(self, line: str) -> None:
        self.console.print(printable(line), soft_wrap=True, markup=False)


def runs_of(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = [
        (run["ended_ago"], name, key, run)
        for name, one in state.get("controllers", {}).items()
        for key, runs in one["recent"].items()
        for run in runs
    ]
    for _, name, key, run in sorted(found, key=lambda one: -one[0]):
        causes = ", ".join(run["causes"]) or "nothing"
        wrote = "; ".join(str(one) for one in run["wrote"]) or "nothing"
        error = f": {run['error']}" if run["error"] else ""
        place = f", at {run['at']}" if run.get("at") else ""
        line = f"run: {name} {key} {run['result']}{error}{place}, woken by {causes}; wrote {wrote}"
        yield " ".join(line.split()), run["reconcile_id"]
