"""CustomResourceDefinitions in files and folders, as they are given to a server before a test."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_GROUP_VERSION = "apiextensions.k8s.io/v1"
_KIND = "CustomResourceDefinition"


def read_definitions(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The definitions in these files, and in the YAML and JSON files below these folders, sorted by file.

    Other objects are passed over, so that a folder may hold a kustomization, too. Raises ValueError, with
    the path, for what cannot be read, for a path without a definition, and for another version than v1.
    """
    return [definition for path in paths for definition in _of_path(path)]


def _of_path(path: Path) -> list[dict[str, Any]]:
    found = [
        _checked(one, file) for file in _files(path) for one in _objects(file) if one.get("kind") == _KIND
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
        raise ValueError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    for document in documents:
        if isinstance(document, dict):
            items = document.get("items")
            objects = items if isinstance(items, list) else [document]
            yield from (one for one in objects if isinstance(one, dict))


def _checked(definition: dict[str, Any], file: Path) -> dict[str, Any]:
    version = definition.get("apiVersion")
    if version != _GROUP_VERSION:
        raise ValueError(f"{file} has a {_KIND} of {version}, where {_GROUP_VERSION} is served")
    metadata = definition.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ValueError(f"{file} has a {_KIND} without metadata.name")
    return definition
