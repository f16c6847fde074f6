"""How long a key waits before it is tried again."""

import math
import random  # noqa: TID251 - the default of an injectable parameter; this floor knows no Clock
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from attrs import define, field, frozen

K = TypeVar("K", bound=Hashable)

_NO_FAILURES = (0, -math.inf)


@frozen
class Backoff:
    """Exponential delays: `base` seconds, doubled with each failure, up to `limit` seconds.

    `jitter` is the share of a delay that chance may add (0.1: up to a tenth), so that keys that failed
    together do not retry together. Raises ValueError for numbers out of range.
    """

    base: float = 0.005
    limit: float = 1000.0
    jitter: float = 0.1

    def __attrs_post_init__(self) -> None:
        if not 0 < self.base <= self.limit < math.inf:
            raise ValueError(f"expected 0 < base <= limit, got base={self.base} and limit={self.limit}")
        if not 0 <= self.jitter < math.inf:
            raise ValueError(f"expected a jitter of 0 or more, as a share of the delay, got {self.jitter}")

    def delay(self, failures: int, chance: float = 0.0) -> float:
        """The delay in seconds after `failures` earlier failures; `chance` in [0, 1) draws the jitter."""
        exponent = min(failures, 1000)  # 2.0**1000 is still a float; `limit` cuts long before
        return min(self.base * 2.0**exponent, self.limit) * (1 + self.jitter * chance)


@define
class KeyBackoff(Generic[K]):
    """A `RateLimiter` that counts the failures of each key until `forget`.

    A failure reported while the key's previous delay still runs does not count again: a key that something
    else woke early must not wait longer for it.
    """

    backoff: Backoff = field(factory=Backoff)
    chance: Callable[[], float] = random.random
    _failures: dict[K, tuple[int, float]] = field(factory=dict, init=False)  # how many, delayed until when

    def next_delay(self, key: K, now: float) -> float:
        """Count a failure of `key` at `now` (s, any monotonic clock); returns how long to wait (s)."""
        count, until = self._failures.get(key, _NO_FAILURES)
        if now < until:
            return until - now
        delay = self.backoff.delay(count, self.chance())
        self._failures[key] = (count + 1, now + delay)
        return delay

    def retries(self, key: K) -> int:
        """How many failures of `key` have counted since it was last forgotten."""
        return self._failures.get(key, _NO_FAILURES)[0]

    def forget(self, key: K) -> None:
        """Reset `key`, and keep no memory of it."""
        self._failures.pop(key, None)
        if not self._failures:
            self._failures.clear()  # a dict keeps the table of its largest size until then

    def keys(self) -> list[K]:
        """All keys with failures that count."""
        return list(self._failures)

    def __len__(self) -> int:
        return len(self._failures)
