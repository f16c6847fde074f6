"""`reconcile check`: what is wrong with the models of a module before a cluster shows it."""

import json
from pathlib import Path
from typing import Any

import click
from attrs import asdict

from reconcile.commands.definitions import read_definition
from reconcile.commands.errors import Problem
from reconcile.commands.kinds import models_in
from reconcile.commands.progress import progress
from reconcile.commands.targets import load_module
from reconcile.models import kind_of
from reconcile.models.linting import Finding, findings


@click.command()
@click.argument("module")
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A CustomResourceDefinition that is installed already: say which fields became required since.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what is wrong as a JSON list.")
def check(module: str, against: Path | None, as_json: bool) -> int:
    """Say what is wrong with the kinds that MODULE defines; exit status 1 if anything is.

    Looked for: replicas that no autoscaler can size, a status that does not say which generation it is
    about, conditions that writers would take from each other, two fields of one name in JSON, and with
    --against fields that became required.
    """
    installed = None if against is None else read_definition(against)
    with progress(f"checking {module}"):
        found = findings_of_module(load_module(module), installed)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], indent=2))
        return 1 if found else 0
    for finding in found:
        click.echo(str(finding))
    if not found:
        click.echo(f"nothing to mend in {module}")
    return 1 if found else 0


def findings_of_module(module: Any, installed: dict[str, Any] | None) -> list[Finding]:
    """What to mend in each kind of a module. Raises Problem."""
    found: list[Finding] = []
    models = models_in(module)
    named = [m for m in models if installed and kind_of(m).resource.name == installed["metadata"]["name"]]
    if installed and not named:
        raise Problem(f"{module.__name__} has no {installed['metadata']['name']}", "give its own definition")
    for model in models:
        try:
            found += findings(model, installed if model in named else None)
        except TypeError as error:
            raise Problem(f"{model.__name__} has no definition", str(error)) from None
    return found
