"""Patterns: RE2's syntax, and searches that end.

Python's own engine is fast and enough for most patterns. One that repeats what already repeats can keep it
busy for ever, so such patterns, and long texts, go to RE2 itself where the CEL library brings it.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

LONG_TEXT: Final = 1000
"""Characters from which on a text is searched by RE2 when a pattern repeats more than once."""

Search = Callable[[str], bool]
"""Whether a pattern occurs in a text."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern in RE2's syntax as Python's.

    Raises:
        re.error: It is no pattern, or uses something of RE2 that Python has no word for.
    """
    return re.compile(_translated(pattern), re.ASCII)


_POSIX_CLASSES = {
    "[:alnum:]": "A-Za-z0-9",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\s",
    "[:word:]": r"\w",
    "[:xdigit:]": "A-Fa-f0-9",
}
_TOKEN = re.compile(r"\\.|\[:\w+:\]|\[\^?\]?|\]|\(\?[=!<#(]|\$|.", re.DOTALL)


def _translated(pattern: str) -> str:
    """`$` means the very end in RE2 and also "before a last newline" in Python; look-around is not RE2."""
    parts: list[str] = []
    in_class = False
    for token in _TOKEN.findall(pattern):
        if token == r"\z":
            parts.append(r"\Z")
        elif token[:2] in (r"\p", r"\P", r"\Q", r"\C"):
            raise re.error(f"{token} is not supported by this server", pattern)
        elif in_class:
            parts.append(_POSIX_CLASSES.get(token, r"\[" if token == "[" else token))
            in_class = token != "]"
        elif token in ("(?=", "(?!", "(?<", "(?(", "(?#"):
            raise re.error(f"invalid or unsupported Perl syntax: `{token}`", pattern)
        elif token == "$":
            parts.append(r"\Z")
        else:
            parts.append(token)
            in_class = token.startswith("[")
    return "".join(parts)


def searcher(pattern: str) -> Search:
    """The search for a pattern.

    Raises:
        re.error: It is no pattern, or uses something of RE2 that Python has no word for.
    """
    compiled = compile_pattern(pattern)
    nested, repeats = repetitions(pattern)
    if nested:
        return _in_linear_time(pattern) or (lambda text: compiled.search(text) is not None)
    if repeats < 2:
        return lambda text: compiled.search(text) is not None

    def search(text: str) -> bool:
        if len(text) > LONG_TEXT and (linear := _in_linear_time(pattern)) is not None:
            return linear(text)
        return compiled.search(text) is not None

    return search


@lru_cache(maxsize=1024)
def _in_linear_time(pattern: str) -> Search | None:
    """RE2's own search; None where its library is missing or does not take the pattern."""
    try:
        from reconcile.embedded.schema.cel.regex import re2_search
    except ImportError:
        return None
    return re2_search(pattern)


_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|[()]|[*+]|\{\d*,?\d*\}|.", re.DOTALL)


def repetitions(pattern: str) -> tuple[bool, int]:
    """Whether a group that can match in several ways is repeated, and how many repetitions there are."""
    open_groups = [False]
    closed = nested = False
    count = 0
    for part in _PART.findall(pattern):
        repeated = part in ("*", "+") or (len(part) > 1 and part[0] == "{")
        if repeated:
            nested = nested or closed
            count += 1
            open_groups[-1] = True
        elif part in ("?", "|"):
            open_groups[-1] = True
        closed = False
        if part == "(":
            open_groups.append(False)
        elif part == ")" and len(open_groups) > 1:
            closed = open_groups.pop()
            open_groups[-1] = open_groups[-1] or closed
    return nested, count
