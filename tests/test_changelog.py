"""The changelog keeps its form, although parallel branches append to it and git merges it by union."""

from collections import Counter
from pathlib import Path

LINES = (Path(__file__).parent.parent / "CHANGELOG.md").read_text().splitlines()
ORDER = ("### Added", "### Changed", "### Deprecated", "### Removed", "### Fixed", "### Security")


def test_a_version_has_each_heading_at_most_once_and_in_the_order_of_keep_a_changelog() -> None:
    versions: list[list[str]] = []
    for line in LINES:
        if line.startswith("## "):
            versions.append([])
        elif line.startswith("### "):
            versions[-1].append(line)
    assert versions
    for headings in versions:
        assert headings == [heading for heading in ORDER if heading in headings]


def test_no_line_of_the_changelog_appears_twice() -> None:
    counts = Counter(line for line in LINES if line.strip() and not line.startswith("#"))
    assert [line for line, count in counts.items() if count > 1] == []


def test_breaking_changes_come_first_under_changed() -> None:
    version = "\n".join(LINES).split("\n## ")[1]
    changed = version.partition("\n### Changed\n")[2].partition("\n### ")[0]
    breaking = [item.startswith("**Breaking:**") for item in changed.split("\n- ")[1:]]
    assert breaking == sorted(breaking, reverse=True)
