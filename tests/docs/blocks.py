"""The code blocks of the documentation: fenced ones, and commands that are set in by four spaces."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^( *)```(\w*) *(?:title=\"([^\"]+)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SET_IN = re.compile(r"(?<=\n\n)((?: {4}\S[^\n]*\n)+)")
SHOWN_FILE = re.compile(r"<!-- (\S+) -->\n\Z")


@frozen
class Block:
    """A block of a page. `language` of one that is set in is `console`; `file` is named above it."""

    page: str
    line: int
    language: str
    title: str
    text: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language or 'no language'})"

    @property
    def commands(self) -> list[str]:
        """What is typed in a console: lines after `$`, and all lines of a block that is set in."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        typed = [line[2:] for line in lines if line.startswith("$ ")]
        return typed or lines

    @property
    def has_output(self) -> bool:
        """Whether a console shows what was answered."""
        lines = self.text.splitlines()
        return any(line.startswith("$ ") for line in lines) and not all(line[:2] == "$ " for line in lines)


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    found = []
    for match in FENCE.finditer(text):
        above = SHOWN_FILE.search(text[: match.start()])
        file = above[1] if above else ""
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(name, line, match[2], match[3] or "", match[4], file))
    without = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in SET_IN.finditer(without):
        line = without.count("\n", 0, match.start()) + 1
        found.append(Block(name, line, "console", "", re.sub("^ {4}", "", match[1], flags=re.MULTILINE)))
    return sorted(found, key=lambda block: block.line)


@cache
def all_blocks() -> tuple[Block, ...]:
    """Every block of every page."""
    return tuple(block for page in PAGES for block in blocks_of(page))


def code(page: str, language: str = "python") -> list[str]:
    """The text of a page's blocks of one language."""
    return [one.text for one in all_blocks() if one.page == page and one.language == language]


def run(page: str, **given: Any) -> dict[str, Any]:
    """Run the Python of a page, in order, where the names `given` are known; what it defined."""
    names: dict[str, Any] = {"__name__": "page", **given}
    exec(compile("\n".join(code(page)), page, "exec", dont_inherit=True), names)
    return names


def parts(command: str) -> Iterator[list[str]]:
    """The commands of a line, one after the other, as lists of words."""
    words: list[str] = []
    for word in shlex.split(command, comments=True):
        if word == "&&":
            yield words
            words = []
        else:
            words.append(word)
    yield words


def plain(text: str) -> list[str]:
    """The lines of an output without what differs each time: numbers, addresses, names of folders."""
    text = re.sub(r"\b[0-9a-f]{8}\b", "ID", text)
    text = re.sub(r"/\S*/(?=kubeconfig)", "FOLDER/", text)
    text = re.sub(r"\d+(?:\.\d+)?", "N", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]


def assert_shown(shown: str, came: str) -> None:
    """Each line that is shown came, in this order; `…` stands for any lines."""
    lines = iter(plain(came))
    for line in plain(shown):
        assert line == "…" or line in lines, f"the page shows a line that does not come: {line}\n\n{came}"
