"""Controllers and incidents that distributions register under an entry-point group.

An operator's own repository often has a package `controllers`, as this distribution has. Where an import
finds theirs, ours is loaded from its files under another name.
"""

import importlib
import importlib.resources
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

CONTROLLERS = "reconcile.controllers"
INCIDENTS = "reconcile.incidents"

_PACKAGE = "controllers"
_ALIAS = "reconcile_bundled_controllers"
_HOME = Path(__file__).parents[2] / _PACKAGE


def entries(group: str) -> Sequence[EntryPoint]:
    """The entry points of a group in all installed distributions, each name once, by name."""
    by_name = {entry.name: entry for entry in entry_points(group=group)}
    return [by_name[name] for name in sorted(by_name)]


def load(entry: EntryPoint) -> Any:
    """The object of an entry point. Raises AttributeError, and any error of its import."""
    module = import_module(entry.module)
    found: Any = module
    for name in filter(None, entry.attr.split(".")):
        found = getattr(found, name)
    return found


def import_module(name: str) -> ModuleType:
    """Like importlib's, but bundled controllers always come from this distribution."""
    package, _, rest = name.partition(".")
    if package != _PACKAGE or not _HOME.is_dir() or _found_first(_HOME):
        return importlib.import_module(name)
    if _ALIAS not in sys.modules:
        _load_alias()
    return importlib.import_module(f"{_ALIAS}.{rest}" if rest else _ALIAS)


def _found_first(home: Path) -> bool:
    loaded = sys.modules.get(_PACKAGE)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(_PACKAGE)
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    return bool(places) and places[0].resolve() == home.resolve()


def _load_alias() -> None:
    file = _HOME / "__init__.py"
    spec = importlib.util.spec_from_file_location(_ALIAS, file, submodule_search_locations=[str(_HOME)])
    assert isinstance(spec, ModuleSpec)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_ALIAS] = module
    spec.loader.exec_module(module)


def sample_of(entry: EntryPoint) -> str:
    """The text of the `sample.yaml` beside a bundled controller; empty without one."""
    file = importlib.resources.files(import_module(entry.module)) / "sample.yaml"
    return file.read_text() if file.is_file() else ""
