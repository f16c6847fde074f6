"""Patterns, which run only on RE2, as in the real server, in time linear in the text.

Python's own engine is never used: some patterns keep it busy for ever, and not all can be recognised. Without
the library (the extra `embedded`), patterns are not checked, and the writer of a definition is warned.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol

from reconcile.embedded.schema.schema_error import SchemaError

MAX_MEMORY: Final = 1024 * 1024
"""Bytes that RE2 may use for one pattern; a pattern that needs more is refused."""

STEPS_A_UNIT: Final = 80
"""Instructions times characters that RE2 executes in about a microsecond at its slowest."""

_CACHED: Final = 256
"""Characters up to which a text's result is cached: for these, calling RE2 costs more than the search."""


class PatternError(SchemaError, ValueError):
    """RE2 refuses the pattern; the text says why."""


class Pattern(Protocol):
    """A compiled pattern of RE2's library."""

    programsize: int

    def search(self, text: str) -> Any: ...

    def finditer(self, text: str) -> Any: ...


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern | None:
    """The pattern for RE2; None without its library. Raises PatternError if RE2 refuses it."""
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
    """The most units of work, of about a microsecond each, for one search."""
    return 1 + pattern.programsize * len(text) // STEPS_A_UNIT


def searcher(pattern: Pattern) -> Callable[[str], bool]:
    """Whether a pattern occurs in a text, as a function that caches results for short texts."""

    def search(text: str) -> bool:
        return pattern.search(text) is not None

    cached = lru_cache(maxsize=64)(search)
    return lambda text: cached(text) if len(text) <= _CACHED else search(text)
