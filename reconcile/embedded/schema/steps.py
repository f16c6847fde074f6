"""The limit of work for checking one object against its schema.

A schema and an object that can both be stored may still need billions of steps together, such as an `anyOf`
of a thousand branches for a list of a hundred thousand items. So every check is counted, and an object that
needs too many is refused.
"""

from collections.abc import Iterable
from typing import Final

from reconcile.embedded.protocol.api_failure import FieldCause

MAX_WORK: Final = 300_000
"""Units of work for one object, of about a microsecond each."""

MAX_CAUSES: Final = 1000
"""The most faults that are listed for one object."""

MAX_CAUSE_LETTERS: Final = 256 * 1024
"""The most letters of all of them together; a single fault may be longer."""

MAX_PATH: Final = 4096
"""The most letters of a path in faults and warnings; keys may be as long as a body."""


_A_CAUSE: Final = 3


class TooMuchWork(Exception):
    """The object would take too long to check."""


class TooManyFaults(Exception):
    """The object has more faults than can be listed."""


class Causes(list[FieldCause]):
    """The faults found so far, and the units of work that are left."""

    def __init__(self, left: int = MAX_WORK) -> None:
        super().__init__()
        self.left = left
        self._letters = MAX_CAUSE_LETTERS

    def spend(self, units: int) -> None:
        """Count work before it is done. Raises TooMuchWork if none is left."""
        self.left -= units
        if self.left < 0:
            raise TooMuchWork

    def append(self, cause: FieldCause) -> None:
        """Add a fault. Raises TooManyFaults at the last one that can be listed."""
        super().append(cause)
        self.left -= _A_CAUSE
        self._letters -= len(cause.message) + len(cause.field)
        if self._letters < 0 or len(self) >= MAX_CAUSES:
            raise TooManyFaults

    def extend(self, causes: Iterable[FieldCause]) -> None:
        """Add faults. Raises as `append` does."""
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
    """A path, cut off at `MAX_PATH` letters."""
    return path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}..."
