"""What the README shows is what the test suite runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SHOWN = re.findall(r"<!-- (\S+) -->\n```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_readme_shows_an_operator_and_its_test() -> None:
    assert [path for path, _ in SHOWN] == ["docs/examples/site/sites.py", "docs/examples/site/test_sites.py"]


@pytest.mark.parametrize(("path", "code"), SHOWN)
def test_the_code_in_the_readme_equals_that_of_the_files(path: str, code: str) -> None:
    assert code == (ROOT / path).read_text()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_a_link_in_the_readme_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_the_readme_has_the_right_number_of_recorded_conversations() -> None:
    folders = [ROOT / "tests/conformance" / name for name in ("scenarios", "webhooks/scenarios")]
    scenarios = sum(len(list(folder.glob("*/*.json"))) for folder in folders)
    assert f"tested against {scenarios} conversations" in README
