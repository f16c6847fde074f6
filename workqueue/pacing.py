"""At most one hand-out of a key per interval, and times: ends later than now, and the one before any."""

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Pace(Generic[K]):
    """Until when keys are held back after a hand-out; a key is forgotten once that has passed."""

    def __init__(self, interval: float) -> None:
        """`interval` in seconds, from start to start. Raises ValueError unless it is positive and finite."""
        if not 0 < interval < math.inf:
            raise ValueError(f"expected a finite minimum interval of 0 s or more, got {interval}")
        self._interval = interval
        self._held_until: OrderedDict[K, float] = OrderedDict()  # in the order of both start and end

    def start(self, key: K, now: float) -> None:
        self.forget_passed(now)
        self._held_until[key] = now + self._interval
        self._held_until.move_to_end(key)

    def held(self, key: K, ready_at: float) -> float:
        """When `key` may be handed out: at `ready_at`, or later if its interval has not passed by then."""
        return max(ready_at, self._held_until.get(key, -math.inf))

    def holds(self, key: K, ready_at: float) -> bool:
        """Whether `key` waits until `ready_at` for the interval, and not for a delay."""
        return self._held_until.get(key) == ready_at

    def forget_passed(self, now: float) -> None:
        while self._held_until and next(iter(self._held_until.values())) <= now:
            self._held_until.popitem(last=False)
            if not self._held_until:
                self._held_until.clear()  # a dict keeps the table of its largest size until then

    def __len__(self) -> int:
        return len(self._held_until)


def later(now: float, delay: float) -> float:
    """`delay` seconds after `now`, and later than `now` for any positive delay.

    A tiny delay can vanish when added to a large float, and the key would come back at the same moment, for
    ever in a virtual loop, whose time stands still while there is work.
    """
    return max(now + delay, math.nextafter(now, math.inf)) if delay else now


def no_time_yet() -> float:
    """The clock of a queue that no event loop has used: in it nothing has happened."""
    return 0.0
