"""Where Go's encoding/base64 stops reading."""

import re
from typing import Final

_NO_DIGIT: Final = re.compile(r"[^A-Za-z0-9+/\r\n]")
_NO_BREAK: Final = re.compile(r"[^\r\n]")


def base64_fault(text: str) -> str:
    """Why Go cannot read standard base64 with padding, in its words; empty if it can."""
    at = _corrupt_at(text)
    return "" if at is None else f"illegal base64 data at input byte {at}"


def _corrupt_at(text: str) -> int | None:
    """The byte at which `decodeQuantum` fails."""
    found = _NO_DIGIT.search(text)
    end = len(text) if found is None else found.start()
    held = (end - text.count("\r", 0, end) - text.count("\n", 0, end)) % 4  # digits of the last quantum
    if found is None:
        return end - held if held else None
    return _corrupt_padding(text, end, held) if found[0] == "=" and held >= 2 else end


def _corrupt_padding(text: str, at: int, held: int) -> int | None:
    """As `_corrupt_at`, from the first `=` on, which follows `held` digits."""
    rest = _NO_BREAK.finditer(text, at + 1)
    if held == 2:
        second = next(rest, None)
        if second is None:
            return len(text)
        if second[0] != "=":
            return second.start() - 1
    more = next(rest, None)
    return None if more is None else more.start()
