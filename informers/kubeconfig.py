"""Finds the context of a kubeconfig, and reports problems in one line.

kubernetes-asyncio does the loading (`informers.kubeconfig_credentials`). Which context, and what to tell a
user is decided here, as kubectl does.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from attrs import frozen

from informers.cluster_connection import (
    ClusterConnection,
    ConfigurationProblem,
    is_loopback_url,
    without_user,
)


@frozen
class ChosenContext:
    """A context of a kubeconfig, merged from the files `paths`."""

    paths: tuple[Path, ...]
    connection: ClusterConnection


def choose_context(paths: Sequence[Path], context: str | None) -> ChosenContext:
    """Read and merge the files and look up the context; the first of two entries of one name counts."""
    files = {path: content for path in paths if (content := _read(path))}
    if not files:
        raise ConfigurationProblem(f"the kubeconfig {_named(paths)} is empty")
    contexts = dict(_entries(files, "contexts", "context"))
    name = context or next(
        (str(c["current-context"]) for c in files.values() if c.get("current-context")), ""
    )
    known = ", ".join(sorted(contexts)) or "none at all"
    if not name:
        raise ConfigurationProblem(
            f"the kubeconfig {_named(paths)} has no current-context; name one of its contexts: {known}"
        )
    if name not in contexts:
        raise ConfigurationProblem(
            f"the kubeconfig {_named(paths)} has no context {name}; its contexts: {known}"
        )
    chosen = contexts[name]
    server = _server(files, name, chosen)
    _check_user(files, name, chosen, server)
    namespace = str(chosen.get("namespace") or "default")
    return ChosenContext(tuple(files), ClusterConnection(name, server, namespace, is_loopback_url(server)))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigurationProblem(f"the kubeconfig {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # not UTF-8, or a date that does not exist
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise ConfigurationProblem(f"the kubeconfig {path} is not YAML{where}") from error
    if content is None:
        return None
    if not isinstance(content, dict):
        raise ConfigurationProblem(f"the kubeconfig {path} is not a kubeconfig: it holds no mapping")
    return content


def _entries(
    files: Mapping[Path, Mapping[str, Any]], section: str, field: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    seen: set[str] = set()
    for path, file in files.items():
        entries = file.get(section) or []
        if not isinstance(entries, list):
            raise ConfigurationProblem(f"the kubeconfig {path} is damaged: `{section}` is not a list")
        for entry in entries:
            if not isinstance(entry, dict) or "name" not in entry:
                raise ConfigurationProblem(
                    f"the kubeconfig {path} is damaged: an entry of `{section}` has no name"
                )
            content = entry.get(field) or {}
            if not isinstance(content, dict):
                raise ConfigurationProblem(
                    f"the kubeconfig {path} is damaged: `{field}` of {entry['name']} is not a mapping"
                )
            if (name := str(entry["name"])) not in seen:
                seen.add(name)
                yield name, content


def _server(files: Mapping[Path, Mapping[str, Any]], name: str, context: Mapping[str, Any]) -> str:
    cluster = str(context.get("cluster") or "")
    clusters = dict(_entries(files, "clusters", "cluster"))
    if cluster not in clusters:
        raise ConfigurationProblem(
            f"context {name} is for cluster {cluster or '(none)'}, "
            f"which the kubeconfig {_named(files)} does not have"
        )
    server = str(clusters[cluster].get("server") or "").rstrip("/")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationProblem(
            f"cluster {cluster} of the kubeconfig {_named(files)} has no usable server: "
            f"expected https://HOST:PORT, got {without_user(server) or 'nothing'}"
        )
    if "@" in parts.netloc:
        raise ConfigurationProblem(
            f"the server of cluster {cluster} of the kubeconfig {_named(files)} has a user in its URL, which "
            "would show in logs: give username and password in the user entry"
        )
    return server


def _check_user(
    files: Mapping[Path, Mapping[str, Any]], name: str, context: Mapping[str, Any], server: str
) -> None:
    user = str(context.get("user") or "")
    if user in dict(_entries(files, "users", "user")) or server.startswith("http://"):
        return
    raise ConfigurationProblem(
        f"context {name} is for user {user or '(none)'}, which the kubeconfig {_named(files)} does not have"
    )


def _named(paths: Sequence[Path] | Mapping[Path, Any]) -> str:
    return os.pathsep.join(str(path) for path in paths)
