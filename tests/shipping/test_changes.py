"""The changes of a version in a changelog."""

from pathlib import Path

from reconcile.shipping.changes import KINDS, Change, changes_of

ROOT = Path(__file__).parents[2]
CHANGELOG = """
# Changelog

## [1.1.0] - 2030-02-01

### Added
- Sites may have [several](docs/names.md) names,
  and all are served.
- A second one

### Fixed

* No second Deployment

Thanks to all.

### Internal
- not for users

## 1.0.0

### Security
- Secrets are hidden

## 1.1
"""


def test_the_items_of_a_version_are_its_changes() -> None:
    assert changes_of(CHANGELOG, "1.1.0") == [
        Change("added", "Sites may have several names, and all are served."),
        Change("added", "A second one"),
        Change("fixed", "No second Deployment"),
    ]
    assert changes_of(CHANGELOG, "1.0.0") == [Change("security", "Secrets are hidden")]


def test_a_version_without_a_heading_changes_nothing() -> None:
    assert changes_of(CHANGELOG, "2.0.0") == []
    assert changes_of(CHANGELOG, "1.1") == []
    assert changes_of("", "1.0.0") == []


def test_the_changelog_of_this_project_is_read_too() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    changes = changes_of(text, "Unreleased")
    assert len(changes) > 50
    assert {change.kind for change in changes} <= set(KINDS)
    assert not [change for change in changes if "](" in change.description]
