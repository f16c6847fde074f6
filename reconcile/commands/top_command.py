"""`reconcile top`: the busiest keys, queues and informers of a manager."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from attrs import asdict, frozen
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reconcile.commands.debug_client import DebugClient, manager_options
from reconcile.doctor.findings import printable

PERIOD = 2.0
KEYS = 15


@click.command()
@click.option("--once", is_flag=True, help="Show it once and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, once.")
@manager_options
def top(once: bool, as_json: bool, manager: DebugClient) -> None:
    """Show the busiest keys, queues and informers of a manager, until Ctrl-C.

    RUNS A MINUTE counts the runs that ended within the last minute; for a key that runs less often it is
    computed from its last runs. Each distinct error is shown with its file and line.
    """
    told = _summary_of(manager)
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    console = Console()
    if once or not console.is_terminal:
        console.print(_screen(told))
        return
    with Live(_screen(told), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(PERIOD)  # noqa: TID251 -- a command line of its own process waits in real time
            live.update(_screen(_summary_of(manager)), refresh=True)


def _summary_of(manager: DebugClient) -> Mapping[str, Any]:
    """What a manager says of itself. Raises Problem."""
    with manager.understood():
        return summary(manager.ask("/debug/state"))


@frozen
class Busy:
    """A key and how often it runs; `at` is the line where its last run failed."""

    controller: str
    key: str
    runs_a_minute: float
    writes: int
    last: str
    woken_by: str
    storm: bool
    at: str


def summary(state: Mapping[str, Any]) -> Mapping[str, Any]:
    controllers = state["controllers"]
    busiest = sorted(_keys(controllers), key=lambda one: (-one.runs_a_minute, one.controller, one.key))
    return {
        "server": state["server"],
        "leading": state["leading"],
        "sharding": state.get("sharding"),
        "unreachable": [
            {name: one[name] for name in ("name", "down_seconds", "error")}
            for one in state.get("clusters", ())
            if not one.get("reachable", True)
        ],
        "keys": [asdict(one) for one in busiest[:KEYS]],
        "controllers": [_controller(name, one) for name, one in controllers.items()],
        "errors": [one for name, told in controllers.items() for one in _errors(name, told)][:KEYS],
        "informers": [
            {name: one[name] for name in ("resource", "state", "objects", "relists", "failures")}
            for one in state["informers"]
        ],
    }


def _keys(controllers: Mapping[str, Any]) -> Iterator[Busy]:
    for name, one in controllers.items():
        for key, runs in one["recent"].items():
            last = runs[-1]
            causes = last["causes"]
            writes = sum(len(run["wrote"]) for run in runs)
            woken = causes[-1] if causes else ""
            often = rate(runs, one.get("runs_last_minute", {}).get(key, 0))
            storm, place = key in one["storms"], last.get("at", "")
            yield Busy(name, key, often, writes, last["result"], woken, storm, place)


def rate(runs: Sequence[Mapping[str, Any]], counted: int = 0) -> float:
    """Runs per minute: those `counted` in the last one, or the rate of the remembered runs."""
    intervals = sum(1 + run.get("left_out", 0) for run in runs[1:])
    if not intervals:
        return float(counted)
    # A burst that has ended is spread over at least a minute, so that an idle key does not look busy.
    remembered = intervals * 60 / max(60.0, runs[0]["ended_ago"])
    return float(round(max(counted, remembered), 1))


def _errors(name: str, told: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The distinct errors of a controller, the latest first; older managers do not list them."""
    parts = ("error", "at", "count", "last_ago")
    errors = reversed(told.get("errors", ()))
    return [{"controller": name, **{part: one[part] for part in parts}} for one in errors]


def _controller(name: str, one: Mapping[str, Any]) -> Mapping[str, Any]:
    queue = one["queue"]
    return {
        "name": name,
        "runs": one["runs"],
        "failures": one["failures"],
        "running": len(one["running"]),
        "workers": one["workers"],
        "waiting": sum(queue["depths"].values()),
        "storms": len(one["storms"]),
        "paused_keys": len(one["resting"]),
    }


def _screen(told: Mapping[str, Any]) -> Group:
    leads = "leads" if told["leading"] else "stands by"
    return Group(
        _line(f"{told['server'] or 'not connected'}, {leads}"),
        *([] if told["sharding"] is None else [_line(_share(told["sharding"]))]),
        *(_line(_outage(one)) for one in told["unreachable"]),
        _table([{k: v for k, v in one.items() if k != "at"} for one in told["keys"]], "no key has run yet"),
        _table(told["errors"], "no run has failed"),
        _table(told["controllers"], "no controllers"),
        _table(told["informers"], "no informers"),
    )


def _share(one: Mapping[str, Any]) -> str:
    moving = [f"{name} {one[name]}" for name in ("warming", "closing") if one[name]]
    role = ", leads" if one["leads"] else ""
    told = f"{one['identity']} holds {one['holds']} of {one['buckets']} buckets of the ring {one['ring']}"
    return "; ".join([f"{told}, of {len(one['members'])} replicas{role}", *moving])


def _outage(one: Mapping[str, Any]) -> str:
    where = f"the API server of {one['name']}" if one["name"] else "the API server"
    return f"{where} has been unreachable for {one['down_seconds']:.0f} s: {one['error']}"


def _table(rows: Sequence[Mapping[str, Any]], none: str) -> Table | str:
    if not rows:
        return none
    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        number = isinstance(rows[0][name], int | float) and not isinstance(rows[0][name], bool)
        table.add_column(
            name.replace("_", " ").upper(), justify="right" if number else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> Text:
    if isinstance(value, bool):
        return Text("yes" if value else "")
    return _line(str(value))


def _line(text: str) -> Text:
    """Text of objects and errors, which is no markup and controls no terminal."""
    return Text(printable(text))
