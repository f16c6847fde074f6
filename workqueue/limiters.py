"""How often keys may be retried: the limiters beside the back-off of a single key."""

import math
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Decides how long a key waits that `WorkQueue.add_rate_limited` adds."""

    def next_delay(self, key: K_contra, now: float) -> float:
        """Count a failure of `key` at `now` (s, a monotonic clock); returns how long it waits, 0 or more."""

    def retries(self, key: K_contra) -> int:
        """How many failures of `key` have counted since it was last forgotten."""

    def forget(self, key: K_contra) -> None:
        """Reset `key`, and keep no memory of it."""


class TokenBucket:
    """A limit on all keys together: `rate` retries a second in the long run, `burst` of them at once.

    Every call takes a token; if none is left, one is taken in advance and its key waits for it. Keeps two
    numbers, whatever the number of keys.
    """

    def __init__(self, rate: float, burst: int = 1) -> None:
        """Raises ValueError unless `rate` is positive and finite and `burst` is 1 or more."""
        if not 0 < rate < math.inf:
            raise ValueError(f"expected a positive, finite rate per second, got {rate}")
        if not burst >= 1:
            raise ValueError(f"expected a burst of 1 or more, got {burst}")
        self._interval = 1 / rate
        self._slack = (burst - 1) * self._interval
        self._spent_until = -math.inf

    def next_delay(self, key: Hashable, now: float) -> float:
        """Take a token at `now` (seconds, a monotonic clock); returns how long until it is available."""
        spent_until = max(self._spent_until, now)
        self._spent_until = spent_until + self._interval
        return max(0.0, spent_until - self._slack - now)

    def retries(self, key: Hashable) -> int:
        """0: a bucket knows no keys."""
        return 0

    def forget(self, key: Hashable) -> None:
        """Does nothing: tokens stay taken."""


class MaxOf(Generic[K_contra]):
    """The longest delay of several limiters. Each counts every failure."""

    def __init__(self, *limiters: RateLimiter[K_contra]) -> None:
        """Raises ValueError without any limiter."""
        if not limiters:
            raise ValueError("MaxOf needs at least one limiter")
        self._limiters = limiters

    def next_delay(self, key: K_contra, now: float) -> float:
        """Count a failure of `key` with each limiter; returns the longest of their delays (s)."""
        return max([limiter.next_delay(key, now) for limiter in self._limiters])

    def retries(self, key: K_contra) -> int:
        """The largest number of failures that any of them has counted for `key`."""
        return max(limiter.retries(key) for limiter in self._limiters)

    def forget(self, key: K_contra) -> None:
        """Have each limiter forget `key`."""
        for limiter in self._limiters:
            limiter.forget(key)
