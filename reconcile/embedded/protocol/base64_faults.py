"""Where Go's encoding/base64 stops reading."""

import string
from typing import Final

_DIGITS: Final = frozenset(string.ascii_letters + string.digits + "+/")
_BREAKS: Final = "\r\n"


def base64_fault(text: str) -> str:
    """Why Go cannot read standard base64 with padding, in its words; empty if it can."""
    at = _corrupt_at(text)
    return "" if at is None else f"illegal base64 data at input byte {at}"


def _corrupt_at(text: str) -> int | None:
    """The byte at which `decodeQuantum` fails."""
    held = 0  # digits of the quantum so far
    for at, sign in enumerate(text):
        if sign in _BREAKS:
            continue
        if sign in _DIGITS:
            held = (held + 1) % 4
        elif sign == "=" and held >= 2:
            return _corrupt_padding(text, at, held)
        else:
            return at
    return len(text) - held if held else None


def _corrupt_padding(text: str, at: int, held: int) -> int | None:
    """As `_corrupt_at`, from the first `=` on, which follows `held` digits."""
    rest = [(place, sign) for place, sign in enumerate(text) if place > at and sign not in _BREAKS]
    if held == 2:
        if not rest:
            return len(text)
        place, sign = rest.pop(0)
        if sign != "=":
            return place - 1
    return rest[0][0] if rest else None
