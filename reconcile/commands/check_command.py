"""`reconcile check`: finds faults in the models of a module before a cluster does."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from attrs import asdict

from reconcile.commands.completions import modules
from reconcile.commands.crds_command import definitions_of_module, models_in
from reconcile.commands.models_command import read_definition
from reconcile.commands.policy_rules import policy_findings, ruled_admissions
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.server_rules import can_compile, has_rules, refusals
from reconcile.commands.targets import load_module
from reconcile.models import kind_of
from reconcile.models.linting import Finding, findings
from reconcile.models.versions import is_custom
from reconcile.webhooks.configurations import WebhookService

_ANY_SERVICE = WebhookService("default", "webhooks")


@click.command()
@click.argument("module", shell_complete=modules)
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An installed CustomResourceDefinition: also report the fields that became required since.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the faults as a JSON list.")
def check(module: str, against: Path | None, as_json: bool) -> int:
    """Find faults in the kinds that MODULE defines; exit status 1 if there are any.

    It looks for replicas that no autoscaler can size, a status without the generation that it describes,
    conditions that writers would take from each other, definitions that an API server refuses, for example
    for CEL rules that do not compile, rules of an Admission that do not compile or do not fit their kind,
    and with --against fields that became required.
    Two fields of one name in JSON, and versions that lose each other's fields, are refused as by
    `reconcile crds`. To compile rules, install the extra: pip install 'reconcile-runtime[embedded]'.
    """
    installed = None if against is None else read_definition(against)
    with progress(f"checking {module}"):
        loaded = load_module(module)
        ruled = ruled_admissions(vars(loaded).values())
        defines = not ruled or installed is not None or _defines_kinds(loaded)
        definitions = definitions_of_module(loaded, _ANY_SERVICE) if defines else []
        found = findings_of_module(loaded, installed) if defines else []
        found += [finding for definition in definitions for finding in refusals(definition)]
        found += [finding for admission in ruled for finding in policy_findings(admission)]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            click.echo(str(finding))
    _require_compiler(
        [*(one["spec"]["names"]["kind"] for one in definitions if has_rules(one)), *map(str, ruled)]
    )
    if not found and not as_json:
        click.echo(f"no faults in {module}")
    return 1 if found else 0


def _defines_kinds(module: ModuleType) -> bool:
    try:
        return bool(models_in(module))
    except Problem:
        return False


def _require_compiler(ruled: Sequence[str]) -> None:
    if ruled and not can_compile():
        raise Problem(
            f"the rules of {ruled[0]} are not compiled: the extra `embedded` is not installed",
            "pip install 'reconcile-runtime[embedded]'",
        )


def _name(definition: dict[str, Any]) -> str:
    metadata = definition.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        raise Problem("the definition has no metadata.name", "expected PLURAL.GROUP")
    return name


def findings_of_module(module: ModuleType, installed: dict[str, Any] | None) -> list[Finding]:
    found: list[Finding] = []
    models = [model for model in models_in(module) if is_custom(model)]
    name = _name(installed) if installed else ""
    named = [model for model in models if kind_of(model).resource.name == name]
    if installed and not named:
        raise Problem(f"{module.__name__} has no {name}", "pass the definition of one of its kinds")
    for model in models:
        found += findings(model, installed if model in named else None)
    return found
