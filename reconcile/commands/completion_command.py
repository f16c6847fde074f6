"""`reconcile completion`: scripts with which a shell completes the command."""

import click
from click.shell_completion import get_completion_class

from reconcile.commands.main import COMPLETE_VARIABLE, PROGRAM

_INSTALL = {
    "bash": "echo 'source <({program} completion bash)' >> ~/.bashrc",
    "zsh": "echo 'source <({program} completion zsh)' >> ~/.zshrc    # after its line with compinit",
    "fish": "{program} completion fish > ~/.config/fish/completions/{program}.fish",
}


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes `reconcile`.

    \b
    The last line of the script says how to install it:
      bash  source <(reconcile completion bash)
      zsh   source <(reconcile completion zsh)
      fish  reconcile completion fish | source

    It completes commands, options, modules of the current directory, bundled controllers and contexts of the
    kubeconfig, without importing a module or asking a server. `kubectl reconcile` needs nothing besides the
    completion of kubectl, which asks kubectl_complete-reconcile.
    """
    script = get_completion_class(shell)
    assert script is not None
    group = ctx.find_root().command
    click.echo(script(group, {}, PROGRAM, COMPLETE_VARIABLE).source().rstrip())
    click.echo(f"\n# To have it in every shell: {_INSTALL[shell].format(program=PROGRAM)}")
