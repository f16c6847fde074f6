"""How a command that stays up ends: by a signal, or by one error."""

from collections.abc import Iterator
from contextlib import contextmanager

from reconcile.manager.signals import INTERRUPTED, Stop, on_signal
from reconcile.runs.supervision import first_error

__all__ = ["INTERRUPTED", "Stop", "alone", "first_error", "on_signal"]


@contextmanager
def alone() -> Iterator[None]:
    """Let an error leave without the groups that task groups inside wrap it in."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_error(group) from None
