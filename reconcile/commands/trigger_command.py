"""`reconcile trigger`, `pause` and `resume`: have a manager do something with one object."""

import json

import click

from reconcile.commands.debug_client import DebugClient, manager_options, named


def _act(action: str, done: str, kind: str, name: str, as_json: bool, manager: DebugClient) -> None:
    told = manager.post(f"/debug/{action}", **named(kind, name))
    if as_json:
        click.echo(json.dumps(told))
    else:
        click.echo(f"{kind} {name} {done} (controller {', '.join(told['controllers'])})")


@click.command()
@click.argument("kind")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@manager_options
def trigger(kind: str, name: str, as_json: bool, manager: DebugClient) -> None:
    """Have an object reconciled now, also where a storm has slowed it down.

    KIND is a kind, its plural, or the name of a controller.
    """
    _act("trigger", "will run", kind, name, as_json, manager)


@click.command()
@click.argument("kind")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@manager_options
def pause(kind: str, name: str, as_json: bool, manager: DebugClient) -> None:
    """Let an object rest: it is not reconciled until it is resumed, or the manager starts anew.

    What would have it reconciled meanwhile is remembered. KIND is a kind, its plural, or the name of a
    controller.
    """
    _act("pause", "rests", kind, name, as_json, manager)


@click.command()
@click.argument("kind")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@manager_options
def resume(kind: str, name: str, as_json: bool, manager: DebugClient) -> None:
    """Undo pause: what happened meanwhile is reconciled now.

    KIND is a kind, its plural, or the name of a controller.
    """
    _act("resume", "goes on", kind, name, as_json, manager)
