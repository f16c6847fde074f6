"""The pages about testing: their code runs as it stands there, and what they show is what comes out."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconcile.testing import Broken, simulate

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = DOCS / "tutorial" / "testing.md"
HOW_TO = DOCS / "how-to" / "test-an-operator.md"


def blocks(page: Path, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_tutorial_operator_fails_the_sweep_as_shown_and_its_corrected_form_passes() -> None:
    names: dict[str, Any] = {"__name__": "tutorial"}
    *code, mended, kept = blocks(TUTORIAL)
    for block in code:
        exec(compile(block, str(TUTORIAL), "exec"), names)
    simulate(names["test_a_guestbook_gets_a_book"])
    simulate(names["test_a_book_that_cannot_be_created_is_retried"])
    with pytest.raises(Broken) as caught:
        names["test_guestbooks_survive_every_fault"]()
    assert_shown(blocks(TUTORIAL, "text")[0], str(caught.value))
    plan = caught.value.plan

    exec(compile(mended, str(TUTORIAL), "exec"), names)
    names["test_guestbooks_survive_every_fault"]()
    exec(compile(kept, str(TUTORIAL), "exec"), names)
    assert names["CRASH"] == plan.to_json()
    names["test_a_fault_found_once_stays_fixed"](plan)


def test_the_tutorial_corrects_its_operator_with_three_lines() -> None:
    before, after = (block for block in blocks(TUTORIAL) if "async def keep_guestbook" in block)
    assert len([line for line in after.splitlines() if line not in before.splitlines()]) == 3


@pytest.mark.timeout(180)
def test_the_tests_in_the_how_to_pass(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    (tmp_path / "test_how_to.py").write_text("\n".join(blocks(HOW_TO)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout
    (passed,) = map(int, re.findall(r"^(\d+) passed", done.stdout, re.MULTILINE))
    assert passed >= HOW_TO.read_text().count("def test_")


def assert_shown(shown: str, came: str) -> None:
    """Each line that is shown came, in this order; times and generated names may be other ones."""
    lines = iter(plain(came))
    for line in plain(shown):
        assert line == "…" or line in lines, f"the page shows a line that does not come: {line}"


def plain(text: str) -> list[str]:
    text = re.sub(r"party-\w{5}\b", "party-NAME", text)
    return [re.sub(r"[\d.]+ s  ", "TIME  ", line).strip() for line in text.splitlines() if line.strip()]


def test_the_upgrade_in_the_how_to_fails_as_shown_and_passes_without_the_new_name(tmp_path: Path) -> None:
    page = DOCS / "how-to" / "upgrade-an-operator.md"
    for block in blocks(page):
        path = tmp_path / block.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(block)
    assert_shown(blocks(page, "text")[0], _failure_of(tmp_path))
    mended = tmp_path / "my_operator" / "sites.py"
    mended.write_text(mended.read_text().replace('f"{site.name}-page"', "site.name"))
    assert "1 passed" in _failure_of(tmp_path)


def _failure_of(folder: Path) -> str:
    """The output of the tests in a folder, without the frame that pytest puts around it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=55, check=False)
    return re.sub(r"^E +(?:\S+UpgradeBroken: )?", "", done.stdout, flags=re.MULTILINE)
