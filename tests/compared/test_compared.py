"""What docs/explanation/compared.md says of our requests and of lines is so; `make compared` has the rest."""

import os
import re
from pathlib import Path

import pytest

from tests.compared.__main__ import counted
from tests.compared.cost import OBJECTS, rows
from tests.compared.programs import PROGRAMS, NotBuilt, Toolchain
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


def test_the_tables_of_the_page_have_the_rows_of_the_cost_table_and_together_its_programs() -> None:
    labels = rows(OBJECTS)
    lines = PAGE.read_text().splitlines()
    begins = [number for number, line in enumerate(lines) if line.startswith(f"| {labels[0]} |")]
    names: dict[str, None] = {}
    for number in begins:
        for label, line in zip(labels, lines[number:], strict=False):
            assert line.startswith(f"| {label} |")
        header = lines[number - 2]
        names |= dict.fromkeys(header.strip("| ").split(" | "))
    assert list(names) == [program.name for program in PROGRAMS]


def test_a_missing_toolchain_is_reported_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotBuilt, match=r"^go is not installed$"):
        Toolchain("go", (("go", "build"),), "program", cache=tmp_path).command("sites")


def test_a_failed_build_is_reported_by_the_last_line_of_its_step(tmp_path: Path) -> None:
    step = ("sh", "-c", "echo downloading >&2; echo no such host >&2; exit 1")
    with pytest.raises(NotBuilt, match=r"no such host$"):
        Toolchain("go", (step,), "program", cache=tmp_path).command("sites")


def test_a_program_is_built_once_until_its_source_changes(tmp_path: Path) -> None:
    toolchain = Toolchain(
        "go", (("sh", "-c", "echo built >> log; touch program"),), "program", cache=tmp_path
    )
    executable = Path(*toolchain.command("sites"))
    assert toolchain.command("pods") == (str(executable),)
    os.utime(executable, (0, 0))
    toolchain.command("sites")
    assert executable.with_name("log").read_text() == "built\nbuilt\n"


@pytest.mark.parametrize("operator", OTHERS, ids=lambda operator: operator.name)
def test_the_operators_on_the_page_keep_a_site(operator: Operator, tmp_path: Path) -> None:
    with staged(operator, tmp_path) as stage:
        stage.quiet = 0.1
        stage.start()
        stage.make()
        assert stage.settles("web:1", 0, 30) == ""
