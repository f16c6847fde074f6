"""What each name of kopf becomes here: one table, for `reconcile adopt kopf` and for the reference.

`tools/kopf_names.py` writes it into `docs/reference/kopf-names.md`; a test compares it with kopf's own names.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from attrs import frozen

from reconcile.adoption.kopf_arguments import ARGUMENTS, KEYWORDS
from reconcile.adoption.kopf_counterparts import Counterpart
from reconcile.adoption.kopf_decorators import DECORATORS
from reconcile.adoption.kopf_functions import ERRORS, FUNCTIONS, SETTINGS, TRACES

PAGE: Final = "docs/reference/kopf-names.md"


@frozen
class Section:
    """A table of the page: `title`, a sentence before it, and its rows."""

    title: str
    about: str
    rows: Sequence[Counterpart]


def sections() -> Sequence[Section]:
    """All tables, in the order of the page."""
    return (
        Section(
            "Decorators",
            "One reconciler takes the place of all handlers of a kind: it says what an object must have, "
            "whatever happened to it.",
            DECORATORS,
        ),
        Section(
            "Arguments of decorators", "What chose objects and changes, and what set the pace.", ARGUMENTS
        ),
        Section(
            "Arguments of handlers",
            "What kopf passed to a function, and where a reconciler finds it.",
            KEYWORDS,
        ),
        Section("Errors", "Every other exception is retried too, with back-off.", ERRORS),
        Section("Functions and classes", "What handlers called.", FUNCTIONS),
        Section(
            "Settings", "What a startup handler assigned to `settings`, and options of `kopf run`.", SETTINGS
        ),
        Section("On objects", "What kopf leaves on objects, and what becomes of it.", TRACES),
    )


@cache
def counterparts() -> Mapping[str, Counterpart]:
    """Every row by its name."""
    return {row.name: row for section in sections() for row in section.rows}
