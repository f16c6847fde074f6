"""`reconcile adopt kopf read`: the handlers of an operator on kopf, and what each becomes."""

import json

import click

from reconcile.adoption.kopf_handlers import KopfOperator
from reconcile.adoption.kopf_modules import NotReadable, read_operator
from reconcile.adoption.kopf_report import as_json, as_text
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option("-m", "--module", "modules", multiple=True, metavar="MODULE", help="Import a module too.")
@click.option(
    "--registry",
    default="",
    metavar="MODULE:NAME",
    help="The registry to read. Default: the one that decorators of kopf use by themselves.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
def read(files: tuple[str, ...], modules: tuple[str, ...], registry: str, json_wanted: bool) -> None:
    """List the handlers of an operator on kopf, and what each becomes here.

    FILE and MODULE are named as for `kopf run`, in the environment of the operator: they are imported, with
    all that their code does when it is imported. No handler is called, not even those of the startup, and
    nothing that starts kopf. No cluster is asked. Lines with ! need thought; they come from the source of the
    handler itself, functions that it calls are not followed.
    """
    operator = read_or_refuse(files, modules, registry)
    if json_wanted:
        click.echo(json.dumps(as_json(operator), indent=2))
        return
    for line in as_text(operator):
        click.echo(line)


def read_or_refuse(files: tuple[str, ...], modules: tuple[str, ...], registry: str) -> KopfOperator:
    """The operator of files and modules. Raises Problem."""
    if not files and not modules:
        raise Problem(
            "no file and no module was named", "name them as for kopf run: operator.py, or -m MODULE"
        )
    try:
        with progress(f"importing {', '.join((*files, *modules))}"):
            operator = read_operator(files, modules, registry)
    except NotReadable as error:
        raise Problem(error.message, error.hint) from error
    if not operator.handlers:
        raise Problem(
            f"{', '.join((*files, *modules))} registers no handlers",
            "name the modules with its decorators, or its registry with --registry MODULE:NAME",
        )
    return operator
