"""The programs whose cost is compared, and how those in other languages are built."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "compared"
SECONDS = 1800
"""Seconds for one step of a build: the first one downloads and compiles all modules."""

Command = tuple[str, ...]


class NotBuilt(Exception):
    """A program that cannot be measured here; says why in one line."""


@frozen
class Program:
    """A program by its name and version; `command` is what runs it for `sites` or `pods`.

    It reads KUBECONFIG, follows all objects of the KIND of its environment, and writes a byte into the file
    RUNS for each run. Programs that must be built raise NotBuilt from `command`.
    """

    name: str
    command: Callable[[str], Command]


@frozen
class Toolchain:
    """Builds the program in a folder beside this file: in a copy of it, with the `steps` of one tool.

    `made` is the path of the executable in that copy. It is built again when a source is newer.
    """

    folder: str
    steps: tuple[Command, ...]
    made: str
    cache: Path = CACHE

    def command(self, _kind: str) -> Command:
        copy = self.cache / self.folder
        executable = copy / self.made
        if not executable.exists() or executable.stat().st_mtime < self._changed():
            self._build(copy)
        return (str(executable),)

    def _changed(self) -> float:
        return max(file.stat().st_mtime for file in (HERE / self.folder).rglob("*"))

    def _build(self, copy: Path) -> None:
        if shutil.which(tool := self.steps[0][0]) is None:
            raise NotBuilt(f"{tool} is not installed")
        shutil.copytree(HERE / self.folder, copy, dirs_exist_ok=True)
        for step in self.steps:
            _run(step, copy)


def _run(step: Command, folder: Path) -> None:
    try:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{' '.join(step)} took more than {SECONDS} s") from None
    if done.returncode:
        *_, reason = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise NotBuilt(f"{' '.join(step)}: {reason.strip()}")


GO = Toolchain("go", (("go", "mod", "tidy"), ("go", "build", "-o", "program", ".")), "program")
RUST = Toolchain("rust", (("cargo", "build", "--release"),), os.path.join("target", "release", "compared"))


def _python(*arguments: str) -> Command:
    return (sys.executable, *arguments)


def _kopf(module: str) -> Command:
    return _python("-m", "kopf", "run", "--standalone", "-A", "-m", module)


PROGRAMS = (
    Program("ours", lambda kind: _python("-m", "reconcile", "run", f"cost_ours:{kind}")),
    Program("kopf", lambda kind: _kopf("cost_kopf_events")),
    Program("kr8s", lambda kind: _python("-m", "cost_kr8s")),
    Program("controller-runtime", GO.command),
    Program("kube-rs", RUST.command),
    Program("kopf, changes", lambda kind: _kopf("cost_kopf_changes")),
)
