"""`reconcile explain`: why an object was reconciled, what each run read and wrote, and its result."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from reconcile.commands.debug_client import DebugClient, manager_options, named

PERIOD = 1.0


@click.command()
@click.argument("kind")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--follow", "-f", is_flag=True, help="Keep showing runs as they end, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --follow one run per line.")
@manager_options
def explain(kind: str, name: str, follow: bool, as_json: bool, manager: DebugClient) -> None:
    """Show why an object was reconciled, and the result.

    KIND is a kind, its plural, or the name of a controller. The last runs of the object are shown, oldest
    first: what triggered each, what it read and wrote, how it ended and how long it took.
    """
    query = named(kind, name)
    told = manager.ask("/debug/explain", **query)
    if as_json and not follow:
        click.echo(json.dumps(told, indent=2))
        return
    seen: set[tuple[str, str]] = set()
    _print_new(told, seen, as_json, heads=True)
    while follow:
        time.sleep(PERIOD)  # noqa: TID251 -- a command line of its own process waits in real time
        _print_new(manager.ask("/debug/explain", **query), seen, as_json)


def _print_new(
    told: Mapping[str, Any], seen: set[tuple[str, str]], as_json: bool, *, heads: bool = False
) -> None:
    for one in told["controllers"]:
        if heads and not as_json:
            click.echo("\n".join(head(one)))
        for run in one["runs"]:
            name = (one["controller"], run["reconcile_id"])
            if name in seen:
                continue
            seen.add(name)
            click.echo(json.dumps({"controller": name[0], **run}) if as_json else "\n".join(chain(run)))


def head(one: Mapping[str, Any]) -> Iterator[str]:
    yield f"{one['kind']} {one['key']}, controller {one['controller']}: {_now(one)}"
    if one["storm"] is not None:
        yield f"  in a storm for {one['storm']['since']:.0f} s: {one['storm']['message']}"
        yield f"  slowed to one run every {one['storm']['interval']:g} s"
    if not one["runs"]:
        yield "  no run has ended yet"


def _now(one: Mapping[str, Any]) -> str:
    if one.get("held_by"):
        return f"held by the replica {one['held_by']}, ask that one"
    if one["paused"]:
        return "paused"
    if one["running"]:
        run = one["running"][0]
        place = f", at {run['waits_at']}" if run["waits_at"] else ""
        return f"running for {run['age']:.1f} s{place}"
    if one["queued"]:
        due = one["queued"][0]["due_in"]
        return f"is due in {due:.1f} s" if due > 0 else "waits for a worker"
    return "idle"


def chain(run: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {run['reconcile_id'] or 'cancelled'}  {run['ended_ago']:.1f} s ago"
    yield from _part("woken by", run["causes"] or ["unknown"])
    yield from _part("read", run["read"])
    yield from _part("wrote", run["wrote"] or ["nothing"])
    attempt = f", after {run['attempt']} failures" if run["attempt"] else ""
    error = f": {run['error']}" if run["error"] else ""
    yield from _part("result", [f"{run['result']} in {run['seconds'] * 1000:.1f} ms{attempt}{error}"])
    yield from _part("at", [run["at"]] if run.get("at") else [])


def _part(name: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"    {'' if number else name:<9} {line}"
