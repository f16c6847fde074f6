"""`reconcile help`: what `reconcile COMMAND --help` shows."""

import click
from click.shell_completion import CompletionItem


def _commands(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    above = ctx.find_root()
    return above.command.shell_complete(above, incomplete)


@click.command()
@click.argument("command", required=False, shell_complete=_commands)
@click.pass_context
def help(ctx: click.Context, command: str | None) -> None:  # noqa: A001 -- the name of the command
    """Show the help of COMMAND, or the list of all commands."""
    above = ctx.find_root()
    if command is None:
        click.echo(above.get_help())
        return
    assert isinstance(above.command, click.Group)
    name, found, _ = above.command.resolve_command(above, [command])
    assert found is not None
    with click.Context(found, info_name=name, parent=above) as within:
        click.echo(found.get_help(within))
