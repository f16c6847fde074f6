"""Shard selectors (KEP-5866): `shardRange(object.metadata.uid, '0x…', '0x…') || …`."""

import re
from functools import lru_cache
from typing import Final, Literal

from attrs import frozen

SHARD_EXAMPLE: Final = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"

# As strict as an API server, which refuses a bound of fewer digits; only the end of all is one longer.
_BOUND: Final = r"'0x([0-9a-f]{16}|10000000000000000)'"
_RANGE: Final = re.compile(
    rf"\s*shardRange\(\s*object\.metadata\.(uid|namespace)\s*,\s*{_BOUND}\s*,\s*{_BOUND}\s*\)\s*"
)
_END: Final = 2**64


@frozen
class ShardRange:
    """Objects whose hash of uid or namespace is in [start, end)."""

    by: Literal["uid", "namespace"]
    start: int
    end: int

    def contains(self, uid: str, namespace: str) -> bool:
        return self.start <= fnv1a(uid if self.by == "uid" else namespace) < self.end


def parse_shard_selector(text: str) -> tuple[ShardRange, ...]:
    """The ranges of a shard selector, one of which must contain an object; none for an empty text.

    Raises ValueError for another text, or if it mixes ranges of uid with ranges of namespace.
    """
    if not text.strip():
        return ()
    ranges = tuple(_range(term, text) for term in text.split("||"))
    if len({one.by for one in ranges}) > 1:
        raise ValueError(
            f"invalid shard selector {text!r}: expected ranges of uid, or of namespace, not of both"
        )
    return ranges


@lru_cache(maxsize=1 << 16)  # in Python it takes 6 us, and each change asks for it, for each range
def fnv1a(text: str) -> int:
    """64-bit FNV-1a of the UTF-8 text: how an API server assigns objects to shards."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % _END
    return value


def _range(term: str, text: str) -> ShardRange:
    match = _RANGE.fullmatch(term)
    if match is None:
        raise ValueError(
            f"invalid shard selector {text!r}: expected bounds of 16 lower-case hex digits, "
            f"such as {SHARD_EXAMPLE}"
        )
    start, end = int(match[2], 16), int(match[3], 16)
    if start >= end:
        raise ValueError(f"invalid shard selector {text!r}: expected a start below the end")
    return ShardRange("uid" if match[1] == "uid" else "namespace", start, end)
