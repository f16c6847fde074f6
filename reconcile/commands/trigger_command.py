"""`reconcile trigger`, `pause` and `resume`: have a manager act on one object."""

import json

import click

from reconcile.commands.debug_client import DebugClient, manager_options, named


def _command(action: str, done: str, description: str) -> click.Command:
    """The subcommand for an action of the debug pages; `done` follows the object's name in its output."""

    @click.command(action, help=f"{description}\n\nKIND is a kind, its plural, or the name of a controller.")
    @click.argument("kind")
    @click.argument("name", metavar="NAMESPACE/NAME")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @manager_options
    def command(kind: str, name: str, as_json: bool, manager: DebugClient) -> None:
        answer = manager.ask(f"/debug/{action}", "POST", **named(kind, name))
        if as_json:
            click.echo(json.dumps(answer))
        else:
            with manager.understood():
                controllers = ", ".join(answer["controllers"])
            click.echo(f"{kind} {name} {done} (controller {controllers})")

    return command


trigger = _command("trigger", "will run", "Reconcile an object now, even if a storm has slowed it down.")
pause = _command(
    "pause",
    "is paused",
    "Stop reconciling an object until it is resumed or the manager restarts.\n\n"
    "What would have triggered it meanwhile is remembered.",
)
resume = _command(
    "resume", "is resumed", "Reconcile a paused object again, at once if something triggered it meanwhile."
)
