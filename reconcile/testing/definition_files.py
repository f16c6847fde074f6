"""CustomResourceDefinitions in files and folders, as they are given to a server before a test."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import frozen

from informers.apimachinery.yaml_scalars import loader_on

_LOADER: Final[Any] = loader_on(getattr(yaml, "CSafeLoader", yaml.SafeLoader))
_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_GROUP_VERSION = "apiextensions.k8s.io/v1"
_KIND = "CustomResourceDefinition"
# What a user writes; a definition that was read from a server has more, which an apply refuses.
_METADATA = ("name", "labels", "annotations")


@frozen
class DefinitionInFile:
    file: Path
    content: dict[str, Any]

    @property
    def name(self) -> str:
        name: str = self.content["metadata"]["name"]
        return name


def read_definitions(paths: Iterable[Path]) -> list[DefinitionInFile]:
    """The definitions in these files, and in the YAML and JSON files below these folders, sorted by file.

    Other objects are passed over, so that a folder may hold a kustomization, too. Raises ValueError, with
    the path, for what cannot be read, for a path without a definition, and for another version than v1.
    """
    return [definition for path in paths for definition in _of_path(path)]


def _of_path(path: Path) -> list[DefinitionInFile]:
    found = [
        DefinitionInFile(file, _checked(one, file))
        for file in _files(path)
        for one in _objects(file)
        if one.get("kind") == _KIND
    ]
    if not found:
        raise ValueError(f"{path} has no {_KIND}")
    return found


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    return [path]


def _objects(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, and those in its lists."""
    try:
        documents = list(yaml.load_all(file.read_bytes(), Loader=_LOADER))
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not YAML{_fault(error)}") from None
    for document in documents:
        if isinstance(document, dict):
            items = document.get("items")
            objects = items if isinstance(items, list) else [document]
            yield from (one for one in objects if isinstance(one, dict))


def _fault(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f" at line {error.problem_mark.line + 1}: {error.problem}"
    return f": {' '.join(str(error).split())}"


def _checked(definition: dict[str, Any], file: Path) -> dict[str, Any]:
    version = definition.get("apiVersion")
    if version != _GROUP_VERSION:
        raise ValueError(f"{file} has a {_KIND} of {version}, where {_GROUP_VERSION} is served")
    metadata = definition.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name") or not isinstance(metadata["name"], str):
        raise ValueError(f"{file} has a {_KIND} without metadata.name")
    written = {
        "apiVersion": version,
        "kind": _KIND,
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "spec": definition.get("spec"),
    }
    try:
        content: dict[str, Any] = json.loads(json.dumps(written))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file} has a {_KIND} that is no JSON: {error}") from None
    return content
