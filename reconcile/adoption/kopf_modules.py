"""Imports the modules of an operator on kopf, as `kopf run` does, and starts nothing."""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from attrs import evolve

from reconcile.adoption.kopf_handlers import KopfOperator, Setting
from reconcile.adoption.kopf_registry import NotARegistry, handlers_of
from reconcile.adoption.kopf_settings import prefixes_of, settings_of

STARTERS: Final = ("run", "operator", "run_tasks", "spawn_tasks")
"""Functions of kopf that start an operator."""


class NotReadable(Exception):
    """An operator cannot be read; `hint` is the next step."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}: {hint}")
        self.message = message
        self.hint = hint


def read_operator(files: Sequence[str], modules: Sequence[str], registry: str = "") -> KopfOperator:
    """Import files and modules in this order, and read what they register.

    `registry` is `MODULE:NAME` for an operator that does not use kopf's default registry. The modules' own
    code is executed, as in any import; none of the handlers is, and no function that starts kopf. Raises
    NotReadable.
    """
    kopf = _kopf()
    with _fresh_registry(kopf), _starting_nothing(kopf):
        loaded = [*map(_load_file, files), *map(_load_module, modules)]
        source = _named_registry(registry) if registry else kopf.get_default_registry()
    try:
        handlers = handlers_of(source)
    except NotARegistry as error:
        raise NotReadable(
            f"{registry or 'the default registry'} is not a kopf registry", str(error)
        ) from None
    operator = KopfOperator(version=_version(kopf), modules=(*files, *modules), handlers=handlers)
    return _with_sources(operator, [module.__file__ for module in loaded if module.__file__])


def _kopf() -> ModuleType:
    try:
        return importlib.import_module("kopf")
    except ImportError as error:
        raise NotReadable(
            f"kopf cannot be imported here ({error})",
            "install reconcile-runtime[cli] into the environment of the operator, and read it there",
        ) from None


def _version(kopf: Any) -> str:
    if version := getattr(kopf, "__version__", None):
        return str(version)
    try:
        return importlib.metadata.version("kopf")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@contextmanager
def _fresh_registry(kopf: Any) -> Iterator[None]:
    """While inside, decorators register in a registry of their own."""
    before = kopf.get_default_registry()
    kopf.set_default_registry(kopf.OperatorRegistry())
    try:
        yield
    finally:
        kopf.set_default_registry(before)


@contextmanager
def _starting_nothing(kopf: Any) -> Iterator[None]:
    """While inside, a module that starts kopf when it is imported fails, instead of running here for ever."""
    before: Mapping[str, Any] = {name: getattr(kopf, name) for name in STARTERS if hasattr(kopf, name)}

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotReadable(
            "the module starts kopf when it is imported", 'guard that by if __name__ == "__main__":'
        )

    for name in before:
        setattr(kopf, name, refuse)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(kopf, name, function)


def _load_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise NotReadable(f"there is no file {path}", "name a Python file, or a module with -m")
    sys.path.insert(0, os.path.abspath(os.path.dirname(path)))
    name = f"_read_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotReadable(f"{path} is not a Python file", "name a Python file, or a module with -m")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _importing(path):
        spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> ModuleType:
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    with _importing(name):
        return importlib.import_module(name)


@contextmanager
def _importing(name: str) -> Iterator[None]:
    try:
        yield
    except NotReadable:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise NotReadable(f"{name} cannot be imported", reason) from error


def _named_registry(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not module or not attribute or not colon:
        raise NotReadable(f"{name} is not the name of a registry", "write MODULE:NAME")
    found: Any = sys.modules.get(f"_read_{module}") or _load_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise NotReadable(f"{name}: the module has no {attribute}", "name a kopf.OperatorRegistry")
        found = getattr(found, part)
    return found


def _with_sources(operator: KopfOperator, files: Sequence[str]) -> KopfOperator:
    """With the settings in the sources of the modules and of the handlers."""
    paths = dict.fromkeys(os.path.abspath(file) for file in files)
    paths.update(
        dict.fromkeys(os.path.abspath(one.place.file) for one in operator.handlers if one.place.file)
    )
    settings: list[Setting] = []
    prefixes: list[str] = []
    unread: list[str] = []
    for path in paths:
        shown = os.path.relpath(path)
        shown = path if shown.startswith(os.pardir) else shown
        try:
            source = Path(path).read_text(encoding="utf-8")
            settings.extend(settings_of(source, shown))
            prefixes.extend(prefixes_of(source))
        except (OSError, ValueError, SyntaxError):
            unread.append(shown)
    return evolve(operator, settings=settings, prefixes=tuple(dict.fromkeys(prefixes)), unread=unread)
