"""Tells the author's frames of a stack from those of this library and of others.

The author's code is neither this library, nor the standard library, nor an installed package of others. An
operator that is itself installed is recognized by its first frame: what the library calls is the author's.
"""

import functools
import os
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import NamedTuple

_HERE = Path(__file__).parents[1]
_LIBRARY = tuple(
    f"{path}{os.sep}" for path in (_HERE, _HERE.parent / "informers", _HERE.parent / "workqueue")
)
_COMMANDS = f"{_HERE / 'commands'}{os.sep}"
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_GENERATED = ("<frozen ", "<attrs generated ")
"""Prefixes of file names outside of any folder: code of the import machinery, and of attrs."""
_BETWEEN = frozenset({"aiohttp", "anyio", "attr", "attrs", "msgspec", "sniffio", "structlog", "uvloop"})
"""Installed packages through which this library calls the author's code."""


class Frame(NamedTuple):
    file: str
    line: int
    function: str

    @classmethod
    def of(cls, frame: FrameType, line: int | None) -> "Frame":
        """`line` is None where Python does not know it, as within a call that another thread looks at."""
        code = frame.f_code
        return cls(code.co_filename, code.co_firstlineno if line is None else line, code.co_name)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def place_of_error(error: BaseException) -> Frame | None:
    """Where an error was raised: the author's innermost line, else ours; None if it never was."""
    frames = [Frame.of(frame, line) for frame, line in walk_tb(error.__traceback__)]
    if not frames:
        return None
    number = authors(frames)
    if number is None:
        ours = [frame for frame in frames if is_library(frame.file)]
        return (ours or frames)[-1]
    return frames[number]


def authors(frames: Sequence[Frame]) -> int | None:
    """The index of the author's innermost frame, with the outermost first; None without one."""
    found, home = None, ""
    for number, frame in enumerate(frames):
        if is_library(frame.file) or _is_standard(frame.file):
            continue
        package = _installed_package(frame.file)
        if found is None and _name_of(package) not in _BETWEEN:
            found, home = number, package
        elif found is not None and package in ("", home):
            found = number
    return found


@functools.lru_cache(maxsize=1024)
def is_library(file: str) -> bool:
    """Whether a file is this library's; ready-made controllers count as the author's."""
    return file.startswith(_LIBRARY)


def is_command(file: str) -> bool:
    return file.startswith(_COMMANDS)


@functools.lru_cache(maxsize=1024)
def _is_standard(file: str) -> bool:
    if file.startswith(_GENERATED):
        return True
    return not _installed_package(file) and file.startswith(_standard_paths())


@functools.cache
def _standard_paths() -> tuple[str, ...]:
    return tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))


@functools.lru_cache(maxsize=1024)
def _installed_package(file: str) -> str:
    """The path of the installed package that a file belongs to; empty if there is none."""
    for mark in _INSTALLED:
        before, found, after = file.rpartition(mark)
        if found:
            return f"{before}{found}{after.partition(os.sep)[0]}"
    return ""


def _name_of(package: str) -> str:
    return package.rpartition(os.sep)[2].removesuffix(".py")
