"""The index of errors has every message, and no other."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from reconcile.ops.debug_pages import HEADER
from tests.docs.public import PUBLIC, names_of, value_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/errors.md").read_text()
LOUD = ("warning", "error", "exception")
TELLS = re.compile(r"log\.(warning|error|exception)\(|\b_log_failure\(|Problem\(")


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `(.+?)` \|", text, re.MULTILINE)


def template(node: ast.expr) -> str:
    """The text of a message, with … for what is put in; empty for one that is passed on."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(template(part) if isinstance(part, ast.Constant) else "…" for part in parts)
        case _:
            return ""


@cache
def calls(folder: str) -> list[ast.Call]:
    texts = [file.read_text() for file in sorted((ROOT / folder).rglob("*.py"))]
    trees = [ast.parse(text) for text in texts if TELLS.search(text)]
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]


def messages_of_commands() -> set[str]:
    raised = [call for call in calls("reconcile/commands") if ast.unparse(call.func) == "Problem"]
    return {text for call in raised if re.search(r"\w", text := template(call.args[0]))}


def events_of_logs() -> Iterator[str]:
    for folder in ("workqueue", "informers", "reconcile"):
        for call in calls(folder):
            owner, _, level = ast.unparse(call.func).rpartition(".")
            if level in LOUD and owner.rpartition(".")[2].strip("_") == "log":
                yield template(call.args[0])
            if level == "_log_failure" and owner == "self" and len(call.args) == 3:
                yield template(call.args[2])


def errors(modules: tuple[str, ...]) -> set[str]:
    values = [value_of(module, name) for module in modules for name in names_of(module)]
    return {one.__name__ for one in values if inspect.isclass(one) and issubclass(one, BaseException)}


PARTS = ("requests", "runs and managers", "building blocks", "tests")


@pytest.mark.rule("docs-errors")
def test_every_exception_that_is_public_is_in_the_index() -> None:
    listed = first_column("".join(section(f"Exceptions of {part}") for part in PARTS))
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == errors(PUBLIC)


@pytest.mark.rule("docs-errors")
def test_every_message_of_a_command_is_in_the_index() -> None:
    assert set(first_column(section("Commands"))) == messages_of_commands()


@pytest.mark.rule("docs-errors")
def test_every_warning_and_error_of_the_log_is_in_the_index() -> None:
    assert set(first_column(section("Log lines"))) == set(events_of_logs())


@pytest.mark.rule("docs-errors")
def test_each_line_of_the_index_has_a_cause_and_a_remedy() -> None:
    rows = re.findall(r"^\| `.+\|$", PAGE, re.MULTILINE)
    cells = [[cell.strip() for cell in row.strip("|").rsplit("|", 2)] for row in rows]
    silent = [name for name, cause, remedy in cells if not cause or not (remedy or "base of" in cause)]
    assert silent == []


def test_the_answers_of_pages_that_are_listed_are_those_of_the_code() -> None:
    folders = (ROOT / "reconcile/ops", ROOT / "reconcile/status")
    said = "\n".join(file.read_text() for folder in folders for file in sorted(folder.glob("*.py")))
    said = said.replace("{HEADER}", HEADER)
    listed = first_column(section("Answers of the pages"))
    assert len(listed) >= 9
    for message in listed:
        assert [part for part in message.split("…") if part.strip() not in said] == []
