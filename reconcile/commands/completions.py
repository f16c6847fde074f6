"""Values that a shell completes: modules, bundled controllers, contexts.

They come from the names of files and from the kubeconfig alone: a TAB imports nothing of the user's, and asks
no server.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from reconcile.controller.entry_points import CONTROLLERS, entries

_NOT_OPERATORS = re.compile(r"_|test_|conftest$|setup$")

_SAFE = re.compile(r"[A-Za-z0-9@_./:+-]+")
"""What every shell takes as one word of text: a hostile file must not put a command on the user's line."""


def modules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Modules and packages of the current directory, and of a package that is already typed."""
    package, dot, _ = incomplete.rpartition(".")
    folder = Path(*package.split("."))
    try:
        names = sorted({name for path in folder.iterdir() for name in _module_of(path)})
    except OSError:
        return []
    return _matching((f"{package}{dot}{name}" for name in names), incomplete)


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Modules, and the bundled controllers."""
    bundled = _matching((entry.name for entry in entries(CONTROLLERS)), incomplete)
    return [*modules(ctx, param, incomplete), *bundled]


def contexts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Contexts of the kubeconfig that the command would read."""
    named = (
        ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    )
    files = named.split(os.pathsep)
    return _matching(dict.fromkeys(name for file in files for name in _contexts_of(Path(file))), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and _SAFE.fullmatch(name)]


def _module_of(path: Path) -> Sequence[str]:
    is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
    name = path.stem if path.suffix == ".py" else path.name
    return (name,) if is_module and name.isidentifier() and not _NOT_OPERATORS.match(name) else ()


def _contexts_of(file: Path) -> Iterator[str]:
    import yaml  # only a context needs it

    try:
        config = yaml.load(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return
    listed = config.get("contexts") if isinstance(config, dict) else None
    for context in listed if isinstance(listed, list) else ():
        if isinstance(context, dict) and isinstance(name := context.get("name"), str):
            yield name
