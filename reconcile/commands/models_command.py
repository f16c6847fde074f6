"""`reconcile models`: typed classes from CustomResourceDefinitions."""

import sys
from pathlib import Path
from typing import Any, Final

import click
import yaml

from informers.apimachinery.yaml_scalars import loader_on
from reconcile.commands.problems import Problem, writing_files
from reconcile.commands.progress import progress
from reconcile.models.generating import source_of

_LOADER: Final[Any] = loader_on(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@click.command()
@click.argument("definition", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the module to this file instead of printing it.",
)
def models(definition: Path, out: Path | None) -> None:
    """Write model classes for the CustomResourceDefinition in the YAML file DEFINITION (- for stdin).

    There is a class for each version of the kind and for each object in its schema. The classes have the
    same schema: `reconcile crds` makes an equivalent definition of them.
    """
    with progress(f"reading {definition}"):
        source = source_of_definition(read_definition(definition), str(definition))
    if out is None:
        click.echo(source, nl=False)
        return
    with writing_files(out):
        out.write_text(source, encoding="utf-8")
    click.echo(out)


def source_of_definition(definition: dict[str, Any], path: str) -> str:
    """The source of a module with its classes; `path` names the definition in a Problem. Raises Problem."""
    try:
        return source_of(definition)
    except ValueError as error:
        raise Problem(f"{path} has a schema that no class can express", str(error)) from None
    except RecursionError:
        raise Problem(f"{path} is nested too deeply", "an API server would not take it either") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise Problem(
            f"{path} is not a complete definition",
            f"{type(error).__name__}: {error}; see kubectl create -f {path}",
        ) from None


def read_definition(path: Path) -> dict[str, Any]:
    """The one definition in a YAML file, or in standard input for `-`. Raises Problem."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        documents = [document for document in yaml.load_all(text, Loader=_LOADER) if document]
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise Problem(f"{path} cannot be read", str(error)) from None
    definitions: list[dict[str, Any]] = [
        d for d in documents if isinstance(d, dict) and d.get("kind") == "CustomResourceDefinition"
    ]
    if len(definitions) != 1:
        raise Problem(f"{path} has {len(definitions)} CustomResourceDefinitions", "expected a file with one")
    if definitions[0].get("apiVersion") != "apiextensions.k8s.io/v1":
        raise Problem(
            f"{path} has apiVersion {definitions[0].get('apiVersion')}", "expected apiextensions.k8s.io/v1"
        )
    return definitions[0]
