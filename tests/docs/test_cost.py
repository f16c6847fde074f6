"""The page on cost names figures that `make bench` has."""

import re
from pathlib import Path

from tests.bench.__main__ import HERE, benches

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "cost.md"
FIGURE = re.compile(rf"`((?:{'|'.join(benches())})\.\w+)`")


def test_each_figure_on_the_page_is_one_of_a_bench() -> None:
    benchmarks = "".join(file.read_text() for file in HERE.glob("*.py"))
    names = set(FIGURE.findall(PAGE.read_text()))
    assert len(names) > 30
    assert [name for name in names if f'"{name}"' not in benchmarks] == []


def test_each_row_with_a_cost_on_the_page_names_its_figure() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line[2:7] != "what "]
    assert len(rows) > 20
    assert [row for row in rows if not FIGURE.search(row)] == []
