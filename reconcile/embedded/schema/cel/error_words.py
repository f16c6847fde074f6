"""The errors of expressions as a real server, whose CEL library is another one, says them."""

import re
from typing import Final

_WORDS: Final = (
    (re.compile(r'Key not found in map : "?(.*?)"?', re.DOTALL), r"no such key: \1"),
    (re.compile(r"No matching overloads found : .*", re.DOTALL), "no such overload"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
)


def in_words_of_go(error: str) -> str:
    """An error of this server's CEL library as a real server says it."""
    for pattern, words in _WORDS:
        if (found := pattern.fullmatch(error)) is not None:
            return found.expand(words)
    return error
