"""How fast a manager may ask, if somebody wants it slower than the server does."""

import anyio
from attrs import define, field


@define(eq=False)
class RequestLimiter:
    """`qps` requests a second over time, `burst` of them at once; the rest wait for their turn, in order.

    Raises ValueError for a rate or a burst of nothing.
    """

    qps: float
    burst: int
    _spent: float = field(default=0.0, init=False)
    _at: float | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self.qps <= 0 or self.burst < 1:
            raise ValueError(f"a limit needs qps > 0 and burst >= 1, not {self.qps:g} and {self.burst}")

    async def take(self) -> None:
        """Wait until one more request may be made."""
        wait = self.reserve(anyio.current_time())
        if wait > 0:
            await anyio.sleep(wait)

    def reserve(self, now: float) -> float:
        """Book one request; says in how many seconds from `now` (s) it may be made."""
        refilled = 0.0 if self._at is None else (now - self._at) * self.qps
        self._spent = max(0.0, self._spent - refilled) + 1
        self._at = now
        return max(0.0, (self._spent - self.burst) / self.qps)
