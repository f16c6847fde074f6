"""Type checkers accept a good operator, and refuse each wrong line of a bad one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def wrong_lines() -> set[int]:
    text = (HERE / "bad.py").read_text()
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# wrong")}


def refused_lines(name: str) -> set[int]:
    """The lines of a file that mypy --strict finds wrong; the cache is the one of `make check`."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", str(HERE / name)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=240,
    )
    assert done.returncode in (0, 1), done.stderr
    return {int(found[1]) for found in re.finditer(rf"{name}:(\d+): error", done.stdout)}


@pytest.mark.timeout(300)
def test_mypy_accepts_the_good_operator() -> None:
    assert refused_lines("good.py") == set()


@pytest.mark.timeout(300)
def test_mypy_refuses_each_wrong_line_of_the_bad_one_and_no_other() -> None:
    assert refused_lines("bad.py") == wrong_lines()
