"""`reconcile adopt kopf read`: the handlers of an operator on kopf, and what each becomes."""

import json

import click

from reconcile.adoption.kopf_report import as_json, as_text
from reconcile.commands.kopf_options import code_options, read_or_refuse


@click.command()
@code_options
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
