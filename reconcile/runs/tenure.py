"""The time for which this replica holds a bucket, from `hold` to `drop`: what its runs write under.

It is known to all code that a run calls or starts, in tasks and in threads, as they inherit its context.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio
from attrs import define, field


@define(eq=False)
class Tenure:
    """The tenure of one bucket; `epoch` grows with each new holder, `label` is the bucket as a label."""

    bucket: int
    epoch: int
    label: str
    ended: bool = field(default=False, init=False)
    _writes: set[anyio.CancelScope] = field(factory=set, init=False)

    def end(self) -> None:
        """Refuse all further writes, and abandon those under way."""
        self.ended = True
        for scope in self._writes:
            scope.cancel()

    def write_begins(self) -> anyio.CancelScope:
        """A scope for one write, cancelled when the tenure ends."""
        scope = anyio.CancelScope()
        self._writes.add(scope)
        if self.ended:
            scope.cancel()
        return scope

    def write_ends(self, scope: anyio.CancelScope) -> None:
        self._writes.discard(scope)


_here: ContextVar[Tenure | None] = ContextVar("tenure", default=None)


def tenure_here() -> Tenure | None:
    """The tenure of the run that the calling code belongs to; None outside of runs, and without buckets."""
    return _here.get()


@contextmanager
def within(tenure: Tenure | None) -> Iterator[None]:
    """Have what is called or started inside belong to a run under that tenure; None: to no run."""
    token = _here.set(tenure)
    try:
        yield
    finally:
        _here.reset(token)
