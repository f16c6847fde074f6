"""The `reconcile` command itself: its subcommands and its exit status."""

import importlib
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
from attrs import frozen

from informers.extras import PYTHON, extra_of
from reconcile.commands.problems import Problem

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "reconcile"
COMPLETE_VARIABLE = "_RECONCILE_COMPLETE"
"""Set by the script of a shell that asks what could come next."""


@frozen
class Subcommand:
    summary: str
    """Its line in `reconcile --help`."""
    example: tuple[str, ...]
    """Lines to type, shown at the end of its own --help."""
    module: str = ""
    """Where it is; by default in the module of its name: `init` in `init_command`."""

    def load(self, name: str, program: str) -> click.Command:
        """Import the command; its example is shown as it is typed for `program`."""
        module = importlib.import_module(f"reconcile.commands.{self.module or f'{name}_command'}")
        command: click.Command = getattr(module, name)
        lines = (re.sub(rf"\b{PROGRAM}\b(?= {name})", program, line) for line in self.example)
        command.epilog = "\n".join(("\b", "Example:", *(f"  {line}" for line in lines)))
        return command


GROUPS: Mapping[str, Mapping[str, Subcommand]] = {
    "Develop": {
        "init": Subcommand(
            "Create a folder with a small, working operator.",
            ("reconcile init greeter", "cd greeter && pip install -e '.[dev]' && pytest"),
        ),
        "dev": Subcommand(
            "Run an operator while you write it, on a cluster of its own.", ("reconcile dev greeter",)
        ),
        "models": Subcommand(
            "Write model classes for a CustomResourceDefinition.",
            ("reconcile models crd.yaml --out site.py",),
        ),
        "crds": Subcommand(
            "Print the CustomResourceDefinitions of model classes.",
            ("reconcile crds sites --out crds", "reconcile crds sites --diff --context production"),
        ),
    },
    "Test": {
        "check": Subcommand(
            "Find faults in the models of a module.", ("reconcile check sites --against installed.yaml",)
        ),
        "transitions": Subcommand(
            "Find changes of a spec that an operator gets wrong.",
            (
                "reconcile transitions sites --budget 60s",
                "reconcile transitions tests.scenarios:sites --only spec.pages",
            ),
        ),
        "demo": Subcommand(
            "Play real incidents with the original's logic and with ours.", ("reconcile demo --once",)
        ),
        "apiserver": Subcommand(
            "Run the embedded API server by itself.",
            (
                "reconcile apiserver --port 8443 --nodes 3 --workloads --kubeconfig-out kubeconfig",
                "kubectl --kubeconfig kubeconfig get nodes",
            ),
        ),
    },
    "Ship": {
        "manifests": Subcommand(
            "Print manifests that run an operator with the least rights.",
            (
                "reconcile manifests sites --image registry.example.com/sites:1.0 --out deploy",
                "kubectl apply -k deploy",
            ),
        ),
        "upgrade": Subcommand(
            "Show what a new version of an operator means for a cluster.",
            ("reconcile upgrade sites --plan --context production",),
        ),
        "uninstall": Subcommand(
            "Take an operator out of a cluster, so that nothing hangs.",
            (
                "reconcile uninstall sites --dry-run",
                "reconcile uninstall sites --namespace sites-system --keep-data",
            ),
        ),
    },
    "Operate": {
        "run": Subcommand(
            "Run controllers on a cluster or on an embedded one.", ("reconcile run sites:manager --embedded",)
        ),
        "explain": Subcommand(
            "Show why an object was reconciled, and the result.",
            (
                "reconcile explain Site default/web",
                "reconcile explain deployments shop/front --follow --manager http://127.0.0.1:9090",
            ),
        ),
        "top": Subcommand(
            "Show the busiest keys, queues and informers of a manager.",
            ("reconcile top", "reconcile top --once --json --manager http://127.0.0.1:9090"),
        ),
        "logs": Subcommand(
            "Show the log of a manager, of one object or one run.",
            (
                "reconcile logs Site default/web --name sites --follow",
                "kubectl logs deployment/sites | reconcile logs --level warning",
            ),
        ),
        "doctor": Subcommand(
            "Find what is wrong with an operator in a cluster.",
            ("reconcile doctor sites", "reconcile doctor --name sites --namespace sites-system --json"),
        ),
        "replay": Subcommand(
            "Execute recorded runs again, with the same or with newer code.",
            (
                "reconcile replay sites.rec --controller sites:manager",
                "reconcile replay sites.rec --controller sites --run 1f0c9a77 --scenario test_incident.py",
            ),
        ),
        "trigger": Subcommand("Reconcile an object now.", ("reconcile trigger Site default/web",)),
        "pause": Subcommand(
            "Stop reconciling an object until it is resumed.",
            ("reconcile pause Site default/web",),
            "trigger_command",
        ),
        "resume": Subcommand(
            "Reconcile a paused object again.", ("reconcile resume Site default/web",), "trigger_command"
        ),
        "shards": Subcommand(
            "Show which replica of an operator works on what, and change it.",
            ("reconcile shards shop/sites", "reconcile shards shop/sites of Site/default/web"),
        ),
    },
    "Move": {
        "adopt": Subcommand(
            "Move an operator to this runtime from another framework.",
            ("reconcile adopt kopf read operator.py",),
        ),
    },
    "Other": {
        "completion": Subcommand(
            "Print the script with which a shell completes the command.",
            ("reconcile completion fish | source",),
        ),
        "help": Subcommand("Show the help of a command.", ("reconcile help top",)),
    },
}
"""What `reconcile --help` shows, in this order: commands, by when they are needed."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        try:
            return entry.load(cmd_name, ctx.command_path or PROGRAM) if entry else None
        except ImportError as error:
            if ctx.resilient_parsing:  # a shell asks, which would print the traceback into the line
                return None
            if not isinstance(error, ModuleNotFoundError) or not (extra := extra_of(error)):
                raise
            hint = f"pip install 'reconcile-runtime[{extra}]'"
            raise Problem(f"{error.name} is not installed for {PYTHON}", hint) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise _unknown_command(error.command_name, ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name].summary) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in commands.items()])


def _unknown_command(name: str, ctx: click.Context) -> Problem:
    import difflib  # no command that is there needs it

    near = difflib.get_close_matches(name, COMMANDS, 1)
    hint = f"did you mean {near[0]}?" if near else f"see {ctx.command_path} --help"
    return Problem(f"there is no command {name!r}", hint)


def _print_version(ctx: click.Context, _parameter: click.Parameter, is_set: bool) -> None:
    if not is_set or ctx.resilient_parsing:
        return
    import importlib.metadata  # would be a tenth of the time that --help takes

    try:
        version = importlib.metadata.version("reconcile-runtime")
    except importlib.metadata.PackageNotFoundError:
        raise Problem(
            "reconcile-runtime is not installed here, so it has no version", "pip install -e . in its folder"
        ) from None
    click.echo(f"reconcile {version}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def reconcile() -> None:
    """Kubernetes controllers in Python, with an API server to run them on."""


def _program() -> str:
    """What was typed: kubectl runs the executable kubectl-reconcile for `kubectl reconcile`."""
    executable, _ = os.path.splitext(os.path.basename(sys.argv[0]))
    return "kubectl reconcile" if executable == "kubectl-reconcile" else PROGRAM


def _discard_output() -> None:
    """Or Python would flush into the closed pipe, or to the full disk, once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status is 0, 1 for a bad outcome, 2 for bad input, 130 after Ctrl-C."""
    try:
        status = reconcile.main(
            arguments, prog_name=_program(), complete_var=COMPLETE_VARIABLE, standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        return 2
    except click.UsageError as problem:
        where = problem.ctx.command_path if problem.ctx else PROGRAM
        Problem(problem.format_message().rstrip("."), f"see {where} --help").show()
        return 2
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        _discard_output()
        return 1
    except OSError as error:  # unexpected, such as a full disk
        _discard_output()
        where = error.filename or "the output"
        Problem(f"{where} cannot be read or written", error.strerror or str(error)).show()
        return 2
    return status if isinstance(status, int) else 0
