"""Finds out that an operator's files have changed, and imports its modules anew."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from attrs import define, field

from reconcile.commands.operators import Operator, load_operator
from reconcile.commands.problems import Problem

_FOREIGN = ("site-packages", "dist-packages")

Stamps = Mapping[Path, tuple[int, int]]


@define
class Sources:
    """The files of an operator: those of its package, and of modules next to it that it imports."""

    target: str
    _stamps: Stamps = field(factory=dict, init=False)

    def load(self) -> Operator:
        """Import it for the first time. Raises Problem."""
        operator = load_operator(self.target)
        self._stamps = self._look()
        return operator

    def changed(self) -> bool:
        """Whether a file is another one than at the last load, or at the last time that this was so."""
        found = self._look()
        if found == self._stamps:
            return False
        self._stamps = found
        return True

    def reload(self) -> Operator:
        """Import it anew. Raises Problem, and then the modules are what they were."""
        with _forgotten(self._modules()):
            return load_operator(self.target)

    def _look(self) -> Stamps:
        files = set(self._folder_files())
        files.update(Path(str(module.__file__)) for module in self._modules().values())
        return {file: stamp for file in files if (stamp := _stamp(file)) is not None}

    def _modules(self) -> Mapping[str, ModuleType]:
        """The operator's own modules: those below the folder of its package that are nobody else's."""
        home = self._home()
        return {
            name: module
            for name, module in list(sys.modules.items())
            if home is not None and name != "__main__" and _is_in(home, getattr(module, "__file__", None))
        }

    def _home(self) -> Path | None:
        """The folder that its package or module is in; None for what is installed, which does not change."""
        top = sys.modules.get(self.target.partition(":")[0].partition(".")[0])
        file = getattr(top, "__file__", None)
        if file is None:
            return None
        path = Path(file)
        home = path.parent.parent if path.name == "__init__.py" else path.parent
        return None if any(part in _FOREIGN for part in home.parts) else home

    def _folder_files(self) -> Iterator[Path]:
        home = self._home()
        if home is None:
            return
        yield from home.glob("*.py")
        package = home / self.target.partition(":")[0].partition(".")[0]
        yield from package.rglob("*.py")


def _is_in(home: Path, file: str | None) -> bool:
    if file is None or not Path(file).is_relative_to(home):
        return False
    inside = Path(file).relative_to(home).parts
    ours = Path(__file__).parents[2]
    floors = ("workqueue", "informers", "reconcile")
    if home == ours and inside[0] in floors:
        return False
    return not any(part.startswith(".") or part in _FOREIGN for part in inside)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@contextmanager
def _forgotten(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Inside, `modules` have never been imported; they are back if it fails."""
    for name in modules:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        yield
    except Problem:
        sys.modules.update(modules)
        raise
