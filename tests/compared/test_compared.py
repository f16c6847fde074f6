"""What docs/explanation/compared.md says of our requests and of lines is so; `make compared` has the rest."""

import re
from pathlib import Path

import pytest

from tests.compared.__main__ import counted
from tests.compared.story import OPERATORS, Operator, lines_of, requests_of, staged

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "compared.md"
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|", re.MULTILINE)
ROWS = {cells[0]: cells[1:] for cells in ROW.findall(PAGE.read_text())}
OURS, *OTHERS = OPERATORS

pytestmark = pytest.mark.timeout(180)


def test_the_line_counts_match_the_page() -> None:
    assert ROWS["lines of code"] == tuple(str(lines_of(operator)) for operator in OPERATORS)


def test_our_request_counts_match_the_page(tmp_path: Path) -> None:
    for phase, asked in requests_of(OURS, tmp_path, quiet=0.5).items():
        assert ROWS[phase][0] == counted(asked), asked


@pytest.mark.parametrize("operator", OTHERS, ids=lambda operator: operator.name)
def test_the_operators_on_the_page_keep_a_site(operator: Operator, tmp_path: Path) -> None:
    with staged(operator, tmp_path) as stage:
        stage.quiet = 0.1
        stage.start()
        stage.make()
        assert stage.settles("web:1", 0, 30) == ""
