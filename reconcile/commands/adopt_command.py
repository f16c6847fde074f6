"""`reconcile adopt`: the way from another framework to this one. Each step is a module of its own."""

import importlib
from collections.abc import Mapping

import click
from attrs import frozen


@frozen
class Step:
    summary: str
    module: str
    """The module in `reconcile.commands` that has the command under the step's name."""
    example: tuple[str, ...]


STEPS: Mapping[str, Step] = {
    "read": Step(
        "List the handlers of an operator, and what each becomes.",
        "adopt_read",
        ("reconcile adopt kopf read operator.py", "reconcile adopt kopf read -m sites.handlers --json"),
    ),
    "draft": Step(
        "Create an operator to fill in, from the handlers.",
        "adopt_draft",
        (
            "reconcile adopt kopf draft sites operator.py --crd crd.yaml",
            "reconcile adopt kopf draft sites operator.py --crd crd.yaml --kind configmaps",
        ),
    ),
    "audit": Step(
        "Say what it left in a cluster, and what stands against a switch.",
        "adopt_audit",
        (
            "reconcile adopt kopf audit operator.py",
            "reconcile adopt kopf audit --kind sites.example.com --json",
        ),
    ),
    "switch": Step(
        "Stop it while nothing is half done; afterwards, say what is left.",
        "adopt_switch",
        (
            "reconcile adopt kopf switch operator.py --deployment sites-system/operator",
            "reconcile adopt kopf switch operator.py --verify",
        ),
    ),
    "back": Step(
        "Hand objects back to the operator on kopf.",
        "adopt_back",
        ("reconcile adopt kopf back sites --dry-run", "reconcile adopt kopf back sites --field status.phase"),
    ),
}
"""In the order in which they are done."""


class StepGroup(click.Group):
    """The steps of STEPS, imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(STEPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        step = STEPS.get(cmd_name)
        if step is None:
            return None
        module = importlib.import_module(f"reconcile.commands.{step.module}")
        command: click.Command = getattr(module, cmd_name)
        command.epilog = "\n".join(("\b", "Example:", *(f"  {line}" for line in step.example)))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Steps"):
            formatter.write_dl([(name, step.summary) for name, step in STEPS.items()])


@click.group()
def adopt() -> None:
    """Move an operator to this runtime from another framework."""


@adopt.group(cls=StepGroup)
def kopf() -> None:
    """Move an operator from kopf, step by step.

    To see what the new operator would write beside the old one: `reconcile run MODULE --dry-run`.
    """
