"""Limits the rate of a client's requests."""

import anyio
from attrs import define, field


@define(eq=False)
class RequestLimiter:
    """Allows `qps` requests a second over time and `burst` at once; the others wait in order.

    Raises ValueError unless `qps` is above 0 and `burst` at least 1.
    """

    qps: float
    burst: int
    _spent: float = field(default=0.0, init=False)
    _at: float | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self.qps <= 0 or self.burst < 1:
            raise ValueError(f"a limit needs qps > 0 and burst >= 1, not {self.qps:g} and {self.burst}")

    async def take(self) -> None:
        """Wait until another request may be sent."""
        wait = self.reserve(anyio.current_time())
        if wait > 0:
            try:
                await anyio.sleep(wait)
            except BaseException:
                # Kept, the turns of requests that are never sent would hold up those that still wait.
                self._spent = max(0.0, self._spent - 1)
                raise

    def reserve(self, now: float) -> float:
        """Reserve one request; returns in how many seconds from `now` (seconds) it may be sent."""
        refilled = 0.0 if self._at is None else (now - self._at) * self.qps
        self._spent = max(0.0, self._spent - refilled) + 1
        self._at = now
        return max(0.0, (self._spent - self.burst) / self.qps)
