"""Notices changes of an operator's files, and imports its modules again."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from attrs import define, field

from reconcile.commands.problems import Problem
from reconcile.commands.targets import Operator, load_operator

_FOREIGN = ("site-packages", "dist-packages")

Stamps = Mapping[Path, tuple[int, int]]


@define
class Sources:
    """The files of an operator: its package, and the modules beside it that it imports."""

    target: str
    _stamps: Stamps = field(factory=dict, init=False)

    def load(self) -> Operator:
        """Raises Problem."""
        operator = load_operator(self.target)
        self._stamps = self._look()
        return operator

    def changed(self) -> bool:
        stamps = self._look()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        return True

    def reload(self) -> Operator:
        """Import it again. Raises Problem, and then the modules stay as they were."""
        with _forgotten(self._modules()):
            return load_operator(self.target)

    def _look(self) -> Stamps:
        files = set(self._folder_files())
        files.update(Path(str(module.__file__)) for module in self._modules().values())
        return {file: stamp for file in files if (stamp := _stamp(file)) is not None}

    def _modules(self) -> Mapping[str, ModuleType]:
        """The operator's own modules: those below the folder of its package, without installed ones."""
        home = self._home()
        return {
            name: module
            for name, module in list(sys.modules.items())
            if home is not None and name != "__main__" and _is_in(home, getattr(module, "__file__", None))
        }

    def _home(self) -> Path | None:
        """The folder of its package or module; None for installed ones, which do not change."""
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
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@contextmanager
def _forgotten(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """While inside, `modules` count as not imported; they are restored if a Problem is raised."""
    for name in modules:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        yield
    except Problem:
        sys.modules.update(modules)
        raise
