"""How many requests a second a client sends."""

import anyio
from hypothesis import given
from hypothesis import strategies as st

from reconcile.client.request_limiter import RequestLimiter
from tests.helpers.scenarios import simulated


@simulated
async def test_requests_that_are_given_up_leave_their_turns_to_others() -> None:
    limiter = RequestLimiter(qps=5, burst=1)
    await limiter.take()

    async def give_up() -> None:
        with anyio.move_on_after(1):
            await limiter.take()

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(give_up)
    started = anyio.current_time()
    await limiter.take()
    assert anyio.current_time() - started <= 1 / 5


@given(st.lists(st.floats(0, 2), max_size=50), st.floats(0.5, 50), st.integers(1, 10))
def test_no_second_has_more_requests_than_the_rate_and_a_burst(
    pauses: list[float], qps: float, burst: int
) -> None:
    limiter, now, sent = RequestLimiter(qps, burst), 0.0, []
    for pause in pauses:
        now += pause
        sent.append(now + limiter.reserve(now))
    for first in sent:
        assert len([one for one in sent if first <= one < first + 1]) <= qps + burst + 1
