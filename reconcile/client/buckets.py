"""Buckets: the units in which the replicas of one operator share its objects.

The bucket of an object is the top bits of the FNV-1a hash of its uid. API servers cut shards in the same way
(KEP-5866), so a bucket is one range of a shard selector. A uid never changes, so neither does the bucket.
Namespaces would not do: names that differ only at their ends share the top bits of that hash.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

from attrs import field, frozen

from informers.apimachinery.shard_selectors import fnv1a

BUCKET_LABEL: Final = "reconcile-runtime/bucket"
"""On a child: the bucket of the object whose run made it, in hexadecimal digits."""

DEFAULT_BUCKETS: Final = 256
MOST_BUCKETS: Final = 4096
_BITS: Final = 64

_hash = lru_cache(maxsize=1 << 16)(fnv1a)  # in Python it takes 6 us, and each change of an object asks for it


def _power_of_two(_: object, __: object, count: int) -> None:
    if not (1 < count <= MOST_BUCKETS and count.bit_count() == 1):
        raise ValueError(f"buckets=: expected a power of two from 2 to {MOST_BUCKETS}, got {count!r}")


@frozen
class Buckets:
    """`count` buckets of equal size. Raises ValueError unless it is a power of two from 2 to 4096."""

    count: int = field(default=DEFAULT_BUCKETS, validator=_power_of_two)

    def of(self, uid: str) -> int:
        """The bucket of an object, from 0 on."""
        return _hash(uid) >> (_BITS - self._bits)

    def label(self, bucket: int) -> str:
        """The value of BUCKET_LABEL: as many hexadecimal digits for each bucket."""
        return f"{bucket:0{-(-self._bits // 4)}x}"

    def shard_selector(self, buckets: Collection[int]) -> str:
        """Selects the objects of these buckets; of none, where there are none."""
        ranges = list(self._ranges(buckets)) or [(0, 1)]  # a range of a single hash, which no uid is to have
        return " || ".join(
            f"shardRange(object.metadata.uid, '{start:#018x}', '{end:#018x}')" for start, end in ranges
        )

    def label_selector(self, buckets: Collection[int]) -> str:
        """Selects the children of objects of these buckets; of none, where there are none."""
        labels = ",".join(self.label(bucket) for bucket in sorted(buckets)) or "none"
        return f"{BUCKET_LABEL} in ({labels})"

    def _ranges(self, buckets: Collection[int]) -> Iterator[tuple[int, int]]:
        """Neighbouring buckets as one range each, of hashes."""
        width = 1 << (_BITS - self._bits)
        first = last = None
        for bucket in sorted(buckets):
            if last is not None and bucket != last + 1:
                assert first is not None
                yield first * width, (last + 1) * width
                first = None
            first, last = bucket if first is None else first, bucket
        if first is not None and last is not None:
            yield first * width, (last + 1) * width

    @property
    def _bits(self) -> int:
        return self.count.bit_length() - 1


def in_ranges(buckets: Collection[int]) -> str:
    """Bucket numbers for people: `0-84, 90`."""
    ranges: list[list[int]] = []
    for bucket in sorted(buckets):
        if ranges and bucket == ranges[-1][-1] + 1:
            ranges[-1][1:] = [bucket]
        else:
            ranges.append([bucket])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)
