"""How much work one object may make while it is checked against its schema.

A schema and an object that are both small enough to be stored can still make billions of steps together: an
`anyOf` of a thousand branches times a list of a hundred thousand items. Everything that is checked is
counted, and an object that takes too much of it is refused.
"""

from collections.abc import Iterable
from typing import Final

from reconcile.embedded.protocol.api_failure import FieldCause

MAX_WORK: Final = 300_000
"""Units of work for one object, of about a microsecond each."""

MAX_CAUSES: Final = 1000
"""Faults that are listed for one object."""

MAX_CAUSE_LETTERS: Final = 256 * 1024
"""Letters of all of them together; one may be longer."""

MAX_PATH: Final = 4096
"""Letters of the path to a field, as faults and warnings show it; keys may be as long as a body."""


_A_CAUSE: Final = 3


class TooMuchWork(Exception):
    """The object would take too long to check."""


class TooManyFaults(Exception):
    """There is no room for another fault."""


class Causes(list[FieldCause]):
    """The faults that were found, and what work is left."""

    def __init__(self, left: int = MAX_WORK) -> None:
        super().__init__()
        self.left = left
        self._letters = MAX_CAUSE_LETTERS

    def spend(self, units: int) -> None:
        """Count work before it is done; raises TooMuchWork when there is nothing left."""
        self.left -= units
        if self.left < 0:
            raise TooMuchWork

    def append(self, cause: FieldCause) -> None:
        """Add a fault; raises TooManyFaults at the last one that is listed."""
        super().append(cause)
        self.left -= _A_CAUSE
        self._letters -= len(cause.message) + len(cause.field)
        if self._letters < 0 or len(self) >= MAX_CAUSES:
            raise TooManyFaults

    def extend(self, causes: Iterable[FieldCause]) -> None:
        """Add some faults; raises as `append` does."""
        for cause in causes:
            self.append(cause)


TOO_MUCH_WORK: Final = FieldCause(
    "FieldValueInvalid",
    "Invalid value: the object takes too long to check against its schema; make it smaller",
    "<nil>",
)
TOO_MANY_FAULTS: Final = FieldCause(
    "FieldValueTooMany", f"Too many: there are more faults than the {MAX_CAUSES} that can be listed", "<nil>"
)


def shortened(path: str) -> str:
    """A path, cut off where it is too long to be shown for every member below it."""
    return path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}..."
