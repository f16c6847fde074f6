"""`reconcile transitions`: every change of a spec that a model allows, on the controllers of an operator."""

from typing import TYPE_CHECKING

import click

from reconcile.commands.completions import modules
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.targets import load_manager, load_module

if TYPE_CHECKING:
    from reconcile.testing.spec_transitions.varied_objects import TransitionSubject

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@click.command()
@click.argument("target", shell_complete=modules)
@click.option("--budget", metavar="TIME", default="60s", show_default=True, help="How long: 60s, 5m.")
@click.option("--only", metavar="FIELD", default="*", help="A pattern of the fields to vary: spec.pages.")
@click.option("--skip", metavar="FIELD", multiple=True, help="A pattern of fields that stay as they are.")
@click.option(
    "--one-way", metavar="WHAT", multiple=True, help="A plural, or plural.field, that may depend on the past."
)
@click.option("--without", metavar="RULE", multiple=True, help="A rule that is not checked.")
@click.option("--no-pairs", is_flag=True, help="Vary one field at a time only.")
@click.option("--seed", default=0, show_default=True, help="Decides orders, delays and generated names.")
def transitions(
    target: str,
    budget: str,
    only: str,
    skip: tuple[str, ...],
    one_way: tuple[str, ...],
    without: tuple[str, ...],
    no_pairs: bool,
    seed: int,
) -> int:
    """Change the spec of each kind of TARGET in every way that its model allows.

    TARGET is that of `reconcile run`, or module:name of a Scenario of reconcile.testing, which gives the
    world around the objects. No cluster is needed: all is played on the embedded API server in virtual
    time. After each change the world must be as a new object with that spec leaves it, no run may fail,
    and a deletion may leave nothing. Exit status 1: a change goes wrong; the least case found is printed.
    """
    seconds = _seconds(budget)
    subject = _subject(target)
    from reconcile.testing import BrokenTransition, SimulationError
    from reconcile.testing import transitions as play

    try:
        with progress(f"changing the specs of {target}"):
            report = play(
                subject,
                budget=seconds,
                pairs=not no_pairs,
                only=only,
                skip=skip,
                one_way=one_way,
                without=without,
                seed=seed,
            )
    except BrokenTransition as broken:
        click.echo(str(broken))
        return 1
    except SimulationError as error:
        raise Problem(str(error), "pass a Scenario that has stand-ins for what is outside") from None
    except (TypeError, ValueError) as error:
        raise Problem(str(error)) from None
    click.echo(str(report))
    return 0


def _seconds(text: str) -> float:
    """Raises Problem for what is not a number of seconds above zero, or one with a unit."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise Problem(
            f"--budget {text} is not a time", "expected a number above 0, with s, m or h, such as 60s"
        )
    return seconds


def _subject(target: str) -> "TransitionSubject":
    """The Scenario that the target names, or its controllers. Raises Problem."""
    try:
        from reconcile.testing import Scenario
    except ImportError as error:
        raise Problem(
            f"the test kit cannot be imported: {error}", "pip install 'reconcile-runtime[embedded,testing]'"
        ) from None
    module, _, name = target.partition(":")
    value = getattr(load_module(module), name, None) if module and name else None
    if isinstance(value, Scenario):
        return value
    controllers = load_manager([target]).controllers
    return lambda: controllers
