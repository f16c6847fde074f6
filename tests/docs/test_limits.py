"""Every bounded memory of the code stands in the table of the page on limits, with what happens above it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "limits.md"
PACKAGES = ("workqueue", "informers", "reconcile", "controllers")
NOT_MEMORIES = {
    "reconcile/embedded/schema/steps.py": "what one answer says",
    "reconcile/embedded/schema/cleaning.py": "what one answer says",
    "reconcile/embedded/schema/cel/admission_evaluation.py": "how deep one evaluation goes",
    "reconcile/testing": "the test kit; its messages are cut",
    "reconcile/commands": "what a screen shows",
    "reconcile/adoption": "what one report names",
    "reconcile/models/source.py": "the width of a line",
}
"""Bounds on what is made or shown once: nothing is kept beyond it."""
_CAPITALS = re.compile(r"_?[A-Z][A-Z_]+").fullmatch


def bounds(path: Path) -> Iterator[str]:
    """The constants that bound what a module keeps, and `lru_cache` where it has one with a size."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            yield from _compared(node)
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "maxlen":
                    yield ast.unparse(keyword.value)
                elif keyword.arg == "maxsize":
                    yield "lru_cache"


def _compared(node: ast.Compare) -> Iterator[str]:
    """`len(self._known) >= SHARED`, `self._spent + len(raw) > BUDGET`."""
    if not isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE):
        return
    left, right = node.left, node.comparators[0]
    if not (isinstance(right, ast.Name) and _CAPITALS(right.id)):
        return
    text = ast.unparse(left)
    if re.search(r"len\((self\.|_[A-Za-z]|known|notes)", text) or text.startswith("self._spent"):
        yield right.id


def found() -> dict[str, list[str]]:
    listed: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not name.startswith(tuple(NOT_MEMORIES)):
                for bound in bounds(path):
                    listed.setdefault(bound, []).append(name)
    return listed


def rows() -> str:
    text = PAGE.read_text()
    return text[text.index("## What is remembered") : text.index("## What is at least once")]


def test_each_bound_of_a_memory_has_a_line_about_exceeding_it() -> None:
    page = rows()
    lacking = [
        f"{name}: {bound}"
        for bound, names in found().items()
        for name in names
        if bound != "lru_cache" and f"`{bound}` in `{name}`" not in page
    ]
    assert not lacking, "name these in the table of docs/explanation/limits.md, and test them one above"


def test_recomputed_values_have_one_line_for_all() -> None:
    assert "`lru_cache`" in rows()
    assert found()["lru_cache"]


def test_the_table_lists_no_bound_that_is_gone() -> None:
    named = re.findall(r"`([A-Z_]+)` in `([a-z_/]+\.py)`", rows())
    assert named
    for bound, name in named:
        assert re.search(rf"\b{bound}\b", (ROOT / name).read_text()), f"{name}: {bound}"


def test_a_bound_is_detected_in_every_notation(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "def f(self):\n"
        "    if len(self._known) >= SHARED: pass\n"
        "    if self._spent + len(raw) > BUDGET: pass\n"
        "    return deque(maxlen=HITS), lru_cache(maxsize=3), len(text) > WIDTH, 3 > len(self._known)\n"
    )
    assert sorted(bounds(module)) == ["BUDGET", "HITS", "SHARED", "lru_cache"]
