"""Reads a CustomResourceDefinition from a file."""

import sys
from pathlib import Path
from typing import Any, Final, cast

import yaml

from reconcile.commands.problems import Problem

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_definition(path: Path) -> dict[str, Any]:
    """The one definition in a YAML file, or in standard input for `-`. Raises Problem."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        documents = [document for document in yaml.load_all(text, Loader=_LOADER) if document]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Problem(f"{path} cannot be read", str(error)) from None
    definitions = [
        d for d in documents if isinstance(d, dict) and d.get("kind") == "CustomResourceDefinition"
    ]
    if len(definitions) != 1:
        raise Problem(f"{path} has {len(definitions)} CustomResourceDefinitions", "expected a file with one")
    if definitions[0].get("apiVersion") != "apiextensions.k8s.io/v1":
        raise Problem(
            f"{path} has apiVersion {definitions[0].get('apiVersion')}", "expected apiextensions.k8s.io/v1"
        )
    return cast(dict[str, Any], definitions[0])
