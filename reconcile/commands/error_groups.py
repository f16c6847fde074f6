"""Takes an error out of the groups of task groups, so that a command can end with one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from reconcile.runs.supervision import first_error


@contextmanager
def without_groups() -> Iterator[None]:
    """While inside, a group of errors is raised as its first error."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_error(group) from None
