"""Buckets: the units in which the replicas of one operator share its objects.

The bucket of an object is the top bits of the FNV-1a hash of its uid. API servers cut shards in the same way
(KEP-5866), so a bucket is one range of a shard selector. A uid never changes, so neither does the bucket.
Namespaces would not do: names that differ only at their ends share the top bits of that hash.
"""

from collections.abc import Collection, Sequence
from typing import Final

from attrs import field, frozen

from informers.apimachinery.shard_selectors import fnv1a

BUCKET_LABEL: Final = "reconcile-runtime/bucket"
"""On a child: the bucket of the object whose run made it, in hexadecimal digits."""

DEFAULT_BUCKETS: Final = 256
MOST_BUCKETS: Final = 4096
_BITS: Final = 64


def _power_of_two(_: object, __: object, count: int) -> None:
    if not (1 < count <= MOST_BUCKETS and count.bit_count() == 1):
        raise ValueError(f"buckets=: expected a power of two from 2 to {MOST_BUCKETS}, got {count!r}")


@frozen
class Buckets:
    """`count` buckets of equal size. Raises ValueError unless it is a power of two from 2 to 4096."""

    count: int = field(default=DEFAULT_BUCKETS, validator=_power_of_two)

    def of(self, uid: str) -> int:
        """The bucket of an object, from 0 on."""
        return fnv1a(uid) >> (_BITS - self._bits)

    def label(self, bucket: int) -> str:
        """The value of BUCKET_LABEL: as many hexadecimal digits for each bucket."""
        return f"{bucket:0{-(-self._bits // 4)}x}"

    def shard_selector(self, buckets: Collection[int]) -> str:
        """Selects the objects of these buckets; without buckets none."""
        width = 1 << (_BITS - self._bits)
        ranges = [(first * width, (last + 1) * width) for first, last in _neighbours(buckets)]
        return " || ".join(
            f"shardRange(object.metadata.uid, '{start:#018x}', '{end:#018x}')"
            for start, end in ranges or [(0, 1)]  # a range of a single hash, which no uid is to have
        )

    def label_selector(self, buckets: Collection[int]) -> str:
        """Selects the children of objects of these buckets; without buckets none."""
        labels = ",".join(self.label(bucket) for bucket in sorted(buckets)) or "none"
        return f"{BUCKET_LABEL} in ({labels})"

    @property
    def _bits(self) -> int:
        return self.count.bit_length() - 1


def in_ranges(buckets: Collection[int]) -> str:
    """Bucket numbers for people: `0-84, 90`."""
    found = _neighbours(buckets)
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _neighbours(buckets: Collection[int]) -> Sequence[tuple[int, int]]:
    """Each group of neighbouring buckets: the first of it and the last."""
    found: list[tuple[int, int]] = []
    for bucket in sorted(buckets):
        if found and bucket == found[-1][1] + 1:
            found[-1] = found[-1][0], bucket
        else:
            found.append((bucket, bucket))
    return found
