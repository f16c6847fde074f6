"""Two tutorials, from top to bottom: what they say is typed, and what comes is as shown."""

import ast
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import define, field

from tests.commands.helpers import Command, running
from tests.docs.blocks import ROOT, Block, all_blocks, parts, plain

FIRST = "docs/tutorial/first-operator.md"
WEBHOOKS = "docs/tutorial/webhooks.md"
PATIENCE = 20.0
"""Seconds in which what is shown has to come."""

# The reader has an environment already.
SKIPPED = (["python3", "-m", "venv"], ["."], ["pip", "install"])


@define
class Reader:
    """Somebody who does what the page says, in an empty folder."""

    folder: Path
    stack: ExitStack
    dev: Command | None = None
    kubeconfig: str = ""
    manager: str = ""
    shown: list[str] = field(factory=list)
    changed: list[str] = field(factory=list)

    def read(self, block: Block) -> None:
        if block.language == "python":
            self.edit(block)
            return
        for typed, answer in exchanges(block.text):
            for words in parts(typed):
                self.type(words, answer)

    def type(self, words: list[str], answer: str) -> None:
        if any(words[: len(begin)] == begin for begin in SKIPPED):
            return
        if words[0] == "cd":
            self.folder /= words[1]
        elif words[:2] == ["reconcile", "dev"]:
            self.start(words[1:], answer)
        else:
            self.see(words, answer)

    def start(self, arguments: list[str], answer: str) -> None:
        self.dev = self.stack.enter_context(running(*arguments, home=self.folder, path=self.folder))
        self.kubeconfig = self.dev.wait_for("export KUBECONFIG=").partition("=")[2]
        self.manager = self.dev.wait_for("reconcile top").split()[-1]
        self.dev.wait_for("started greeter")
        assert plain(self.dev.said) == plain(answer)

    def see(self, words: list[str], answer: str) -> None:
        """What is shown comes, at once or soon."""
        deadline = time.monotonic() + PATIENCE
        words = [self.manager if word.startswith("http://") else word for word in words]
        while (said := self.run(words)) != plain(answer):
            assert repeatable(words), "\n".join(said)
            assert time.monotonic() < deadline, f"{words} says:\n" + "\n".join(said)
            time.sleep(0.1)

    def run(self, words: list[str]) -> list[str]:
        programs = {
            "reconcile": [sys.executable, "-m", "reconcile"],
            "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        }
        command = [*programs.get(words[0], words[:1]), *words[1:]]
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "KUBECONFIG": self.kubeconfig}
        environment["PYTHONPATH"] = f"{self.folder}{os.pathsep}{ROOT}"
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=50, check=False
        )
        return plain(done.stdout + done.stderr)

    def edit(self, block: Block) -> None:
        """A block of a file is what stands there already, or takes the place of what has these names."""
        file = self.folder / block.title
        before = file.read_text()
        if block.text in before:
            self.shown.append(block.title)
            return
        file.write_text(replaced(before, block.text))
        self.changed.append(block.title)


def exchanges(text: str) -> Iterator[tuple[str, str]]:
    """What is typed, and what is answered to that."""
    for part in text.removeprefix("$ ").split("\n$ "):
        typed, _, answer = part.partition("\n")
        yield typed, answer


def repeatable(words: list[str]) -> bool:
    """Whether it may be typed again until it is as shown: what was saved may not be at work yet."""
    return words[:2] in (["kubectl", "get"], ["kubectl", "patch"], ["reconcile", "explain"])


def replaced(before: str, block: str) -> str:
    """A module with the definitions of a block in the place of those of the same names, or at its end."""
    lines = before.splitlines(keepends=True)
    new = {node.name: source(block, node) for node in definitions(block)}
    for node in reversed(definitions(before)):
        if node.name in new:
            lines[first_line(node) - 1 : node.end_lineno] = [new.pop(node.name)]
    return "".join([*lines, *(f"\n\n{text}" for text in new.values())])


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(text: str) -> list[Definition]:
    return [node for node in ast.parse(text).body if isinstance(node, Definition)]


def first_line(node: Definition) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def source(text: str, node: Definition) -> str:
    return "".join(text.splitlines(keepends=True)[first_line(node) - 1 : node.end_lineno])


@pytest.mark.rule("docs-hour")
@pytest.mark.timeout(180)  # an hour of somebody else's, on a machine that may be busy
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="this machine has no kubectl")
@pytest.mark.parametrize(
    ("page", "files"),
    [
        (FIRST, {"greeter/models.py", "greeter/reconciler.py", "tests/test_greeter.py"}),
        (WEBHOOKS, {"greeter/admission.py"}),
    ],
)
def test_the_tutorial_works_as_it_is_written(page: str, files: set[str], tmp_path: Path) -> None:
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for block in all_blocks():
            if block.page == page:
                reader.read(block)
    assert set(reader.shown) == files
    assert set(reader.changed) == files
