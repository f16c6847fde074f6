"""Patterns run on RE2 alone, as in the real server, in time linear in the text.

Python's own engine is never asked: there are patterns that keep it busy for ever, and no way to know all of
them. Where the library is missing (the extra `embedded`), patterns are kept and not checked, which the author
of a definition is warned of.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol

MAX_MEMORY: Final = 1024 * 1024
"""Bytes that RE2 may take for one pattern; one that needs more is refused."""

STEPS_A_UNIT: Final = 80
"""Instructions times characters that RE2 does in about a microsecond where it is slowest."""

_REMEMBERED: Final = 256
"""Characters up to which a text's answer is kept: calling RE2 from Python costs more than such a search."""

Search = Callable[[str], bool]
"""Whether a pattern occurs in a text."""


class PatternError(ValueError):
    """RE2 does not take the pattern; the text says why."""


class Pattern(Protocol):
    """A compiled pattern, as RE2's library has it."""

    programsize: int

    def search(self, text: str) -> Any:
        """The first match, or None."""
        ...

    def finditer(self, text: str) -> Any:
        """All matches that do not overlap."""
        ...


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern | None:
    """The pattern for RE2; None where its library is missing.

    Raises:
        PatternError: RE2 refuses it.
    """
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        raise PatternError(_words(error)) from None
    except UnicodeEncodeError:
        raise PatternError("invalid UTF-8") from None
    return compiled


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def search_cost(pattern: Pattern, text: str) -> int:
    """Units of work, of about a microsecond each, that a search may take at worst."""
    return 1 + pattern.programsize * len(text) // STEPS_A_UNIT


def searcher(pattern: Pattern) -> Search:
    """The search for a pattern."""

    def search(text: str) -> bool:
        return pattern.search(text) is not None

    remembered = lru_cache(maxsize=64)(search)
    return lambda text: remembered(text) if len(text) <= _REMEMBERED else search(text)
