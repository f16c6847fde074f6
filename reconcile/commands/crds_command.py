"""`reconcile crds`: the CustomResourceDefinitions of the model classes of a module."""

import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from reconcile.commands.completions import modules
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem, write_files
from reconcile.commands.progress import progress
from reconcile.commands.targets import load_module
from reconcile.models import Object, definition_of
from reconcile.models.versions import by_kind, is_custom
from reconcile.shipping.documents import as_yaml, file_of, json_list
from reconcile.webhooks.configurations import WebhookService, conversion_of
from reconcile.webhooks.routes import conversion_route
from reconcile.webhooks.wanted_definitions import WantedDefinition, wanted_definition


@click.command()
@click.argument("module", shell_complete=modules)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a file for each definition into this folder instead of printing them.",
)
@click.option(
    "--webhook-service",
    metavar="NAMESPACE/NAME",
    help="Service in front of the webhooks that convert between versions (@converts).",
)
@click.option(
    "--diff",
    is_flag=True,
    help="Compare them with those of a cluster, and its stored objects with what they become.",
)
@kubeconfig_options
@click.option("--json", "as_json", is_flag=True, help="Print one List, as JSON, or the differences.")
def crds(
    module: str,
    out: Path | None,
    webhook_service: str | None,
    diff: bool,
    kubeconfig: str | None,
    context: str | None,
    as_json: bool,
) -> int:
    """Print the CustomResourceDefinitions of the kinds that MODULE defines.

    The same classes always produce the same text. Several versions of a kind make one definition, in
    which the most stable version is stored; they must have the same fields, unless functions convert them,
    which API servers reach at --webhook-service.
    Models of built-in kinds have no definition.

    With --diff, each change is marked + if every object stays as it is, - if it narrows, and ? if only
    objects tell. Stored objects that a change concerns are read and judged; the exit status is 1 if one
    would not fit. Nothing is changed, and no value of an object is shown.
    """
    if out is not None and as_json:
        raise Problem("--out and --json were both given", "use one of them")
    if out is not None and diff:
        raise Problem("--out and --diff were both given", "use one of them")
    if not diff and (kubeconfig or context):
        raise Problem("--kubeconfig and --context name a cluster to compare with", "give --diff too")
    service = None if webhook_service is None else _service(webhook_service)
    if diff:
        return _compare(load_module(module), service, (kubeconfig, context), as_json)
    with progress(f"making definitions of {module}"):
        loaded = load_module(module)
        definitions = definitions_of_module(loaded, service)
    if not definitions:
        raise _no_definitions(loaded)
    if as_json:
        click.echo(json_list(definitions))
    elif out is None:
        click.echo(as_yaml(*definitions), nl=False)
    else:
        write_files(out, {file_of(definition): as_yaml(definition) for definition in definitions})
    return 0


def _compare(
    module: ModuleType,
    service: WebhookService | None,
    cluster: tuple[str | None, str | None],
    as_json: bool,
) -> int:
    # Without --diff nothing is sent, and what sends takes most of the time that the command would take.
    import anyio

    from reconcile.commands.definition_diff import Cluster, differences

    wanted = [
        _wanted(module, versions, service) for versions in by_kind(filter(is_custom, models_in(module)))
    ]
    if not wanted:
        raise _no_definitions(module)
    with progress(f"comparing definitions of {module.__name__}"):
        diffs = anyio.run(differences, Cluster(*cluster), wanted)
    if as_json:
        click.echo(json.dumps([diff.to_json() for diff in diffs], indent=2))
    else:
        click.echo("\n".join(line for diff in diffs for line in diff.lines()))
    return 1 if any(diff.problem for diff in diffs) else 0


def models_in(module: ModuleType) -> Sequence[type[Object]]:
    """The kinds that a module or package defines itself, not those it imports. Raises Problem for none."""
    models = [
        value
        for value in dict.fromkeys(v for v in vars(module).values() if inspect.isclass(v))
        if issubclass(value, Object) and "__kind__" in vars(value) and _is_of(value, module)
    ]
    if not models:
        raise Problem(
            f"the module {module.__name__} defines no kinds", 'expected @resource("group/version") class ...'
        )
    return models


def _is_of(cls: type[object], module: ModuleType) -> bool:
    return cls.__module__ == module.__name__ or cls.__module__.startswith(f"{module.__name__}.")


def definitions_of_module(module: ModuleType, service: WebhookService | None = None) -> list[dict[str, Any]]:
    """The definitions of a module's custom kinds, in its order; `service` converts. Raises Problem."""
    kinds = by_kind(filter(is_custom, models_in(module)))
    return [_definition(module, versions, service) for versions in kinds]


def served_definition(versions: Sequence[type[Object]], service: WebhookService | None) -> dict[str, Any]:
    """The definition of the versions of a kind, which `service` converts if functions are declared.

    Raises TypeError as `definition_of` does.
    """
    route = None if service is None else conversion_route(versions)
    conversion = None if route is None or service is None else conversion_of(route, service)
    return definition_of(*versions, conversion=conversion)


def _service(text: str) -> WebhookService:
    service = WebhookService.of(text)
    if not (service.namespace and service.name) or "/" in service.name:
        raise Problem(f"--webhook-service: {text!r} names no Service", "expected NAMESPACE/NAME")
    return service


def _no_definitions(module: ModuleType) -> Problem:
    return Problem(
        f"the module {module.__name__} has models of built-in kinds only",
        "these are served without a definition",
    )


def _definition(
    module: ModuleType, versions: Sequence[type[Object]], service: WebhookService | None
) -> dict[str, Any]:
    with _explaining(module, versions):
        return served_definition(versions, service)


def _wanted(
    module: ModuleType, versions: Sequence[type[Object]], service: WebhookService | None
) -> WantedDefinition:
    with _explaining(module, versions):
        route = None if service is None else conversion_route(versions)
        webhook = None if route is None or service is None else conversion_of(route, service)["webhook"]
        return wanted_definition(versions, webhook)


@contextmanager
def _explaining(module: ModuleType, versions: Sequence[type[Object]]) -> Iterator[None]:
    try:
        yield
    except (TypeError, NameError) as error:
        reason = f"{error}{_line_of(versions[0])}"
        raise Problem(f"the module {module.__name__} has a class without a definition", reason) from None


def _line_of(model: type[Object]) -> str:
    try:
        return f" ({inspect.getsourcefile(model)}, line {inspect.getsourcelines(model)[1]})"
    except (OSError, TypeError):
        return ""
