"""The page that leads a stranger to the file of a change names files that exist, and few of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "where-things-live.md"
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| to add")
]


def test_the_page_covers_at_least_twenty_changes() -> None:
    assert len({change for change, *_ in ROWS}) == len(ROWS) >= 20


@pytest.mark.parametrize(("change", "first", "others", "count"), ROWS, ids=lambda cell: cell[:30])
def test_a_change_touches_at_most_three_files_and_all_of_them_exist(
    change: str, first: str, others: str, count: str
) -> None:
    files = re.findall(r"`([\w/]+\.(?:py|js|css))`", f"{first} {others}")
    assert len(set(files)) == int(count) <= 3
    assert [name for name in files if not (ROOT / name).is_file()] == []
