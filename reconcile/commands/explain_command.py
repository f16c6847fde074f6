"""`reconcile explain`: why an object was reconciled, what each run did, and why it does not run now."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from reconcile.commands.debug_client import DebugClient, manager_options, named
from reconcile.commands.problems import Problem
from reconcile.doctor.findings import printable
from reconcile.status.why_not_now import after_tries, seconds_text

PERIOD = 1.0


@click.command()
@click.argument("kind")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--follow", "-f", is_flag=True, help="Keep showing runs as they end, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --follow one run per line.")
@click.option(
    "--export",
    "target",
    metavar="FILE",
    help="Write the object's life to a file to be shared: .html, .json, or .otlp.json for a trace of "
    "OpenTelemetry; - prints the JSON.",
)
@manager_options
def explain(
    kind: str, name: str, follow: bool, as_json: bool, target: str | None, manager: DebugClient
) -> None:
    """Show why an object was reconciled, the result, and why it does not run now.

    KIND is a kind, its plural, or the name of a controller. The last runs of the object are shown, oldest
    first: what triggered each, what it read and wrote, how it ended and how long it took.
    """
    query = named(kind, name)
    if target is not None:
        if follow or as_json:
            raise Problem("--export takes no --follow and no --json", "leave them out")
        from reconcile.commands.life_export import export_life

        export_life(target, manager, **query)
        return
    told = manager.ask("/debug/explain", **query)
    if as_json and not follow:
        click.echo(json.dumps(told, indent=2))
        return
    seen: set[tuple[str, str]] = set()
    with manager.understood():
        _print_new(told, seen, as_json, heads=True)
        while follow:
            time.sleep(PERIOD)  # noqa: TID251 -- a command line of its own process waits in real time
            _print_new(manager.ask("/debug/explain", **query), seen, as_json)


def _print_new(
    told: Mapping[str, Any], seen: set[tuple[str, str]], as_json: bool, *, heads: bool = False
) -> None:
    for one in told["controllers"]:
        if heads and not as_json:
            _print_lines(head(one))
        for run in one["runs"]:
            name = (one["controller"], run["reconcile_id"])
            if name in seen:
                continue
            seen.add(name)
            if as_json:
                click.echo(json.dumps({"controller": name[0], **run}))
            else:
                _print_lines([*(gap(run) if heads else ()), *chain(run)])


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines with escapes for what would control the terminal: anybody may write into an object."""
    for line in lines:
        click.echo(printable(line))


def head(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"{one['kind']} {one['key']}, controller {one['controller']}: {_now(one)}"
    if one["storm"] is not None:
        storm = one["storm"]
        yield f"  in a storm for {storm['since']:.0f} s, slowed to one run every {storm['interval']:g} s"
    if not one["runs"]:
        yield "  no run has ended yet"


def _now(one: Mapping[str, Any]) -> str:
    """What it does now, or why it does nothing, in the words of the status page."""
    why: Mapping[str, str] = one["why"]
    return why["sentence"] or why["state"]


def gap(run: Mapping[str, Any]) -> Iterator[str]:
    """That runs before this one are not kept, if there are any."""
    if left_out := run.get("left_out", 0):
        yield f"  … {left_out} run{' is' if left_out == 1 else 's are'} not kept"


def chain(run: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {run['reconcile_id'] or 'cancelled'}  {seconds_text(run['ended_ago'])} ago"
    yield from _part("woken by", run["causes"] or ["unknown"])
    yield from _part("read", run["read"])
    yield from _part("wrote", run["wrote"] or ["nothing"])
    attempt = f", {after_tries(run['attempt'])}" if run["attempt"] else ""
    error = f": {run['error']}" if run["error"] else ""
    yield from _part("result", [f"{run['result']} in {run['seconds'] * 1000:.1f} ms{attempt}{error}"])
    yield from _part("at", [run["at"]] if run.get("at") else [])


def _part(name: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"    {'' if number else name:<9} {line}"
