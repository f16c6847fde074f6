"""Waiting for what is to be, in virtual and in real time."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from reconcile import ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient, consistently, eventually, simulate
from reconcile.testing.polling import NoLonger, NotYet

SETTINGS = ConfigMap(metadata=ObjectMeta("settings", "default"), data={"a": "1"})


Run = Callable[[Callable[[], Awaitable[None]]], None]
BOTH = pytest.mark.parametrize("run", [simulate, anyio.run])


@BOTH
@pytest.mark.rule("kit-waiting")
def test_eventually_returns_the_first_result_that_holds(run: Run) -> None:
    async def test() -> None:
        client = FakeClient()

        async def later() -> None:
            await anyio.sleep(0.02)
            client.add(SETTINGS)

        async with anyio.create_task_group() as group:
            group.start_soon(later)
            found = await eventually(lambda: client.get(ConfigMap, "settings", "default"), every=0.01)
        assert found.data == {"a": "1"}

    run(test)


@BOTH
@pytest.mark.rule("kit-told-apart")
def test_a_check_that_never_holds_is_reported_with_its_last_result(run: Run) -> None:
    async def test() -> None:
        def three_are_ready() -> None:
            assert 2 == 3, "2 of 3 are ready"

        with pytest.raises(NotYet) as caught:
            await eventually(three_are_ready, within=0.02, every=0.01)
        assert str(caught.value).startswith("did not hold within 0.02 s, in ")
        assert "three_are_ready()" in str(caught.value)
        assert "2 of 3 are ready" in str(caught.value)

    run(test)


@BOTH
@pytest.mark.rule("kit-waiting")
def test_a_check_that_no_longer_holds_is_reported_with_time_and_result(run: Run) -> None:
    async def test() -> None:
        looks = iter([True, True, False])

        with pytest.raises(NoLonger) as caught:
            await consistently(lambda: next(looks), during=5, every=0.01)
        assert "at call 3" in str(caught.value)
        assert "last result: False" in str(caught.value)

    run(test)


@pytest.mark.rule("kit-waiting")
@pytest.mark.simulated
async def test_consistently_for_an_hour_passes_at_once_in_virtual_time() -> None:
    began = anyio.current_time()
    await consistently(lambda: True, during=3600, every=10)
    assert anyio.current_time() - began == 3600


@pytest.mark.simulated
async def test_errors_other_than_a_failed_check_or_a_refusal_are_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 // 0)


@pytest.mark.simulated
async def test_zero_and_empty_results_hold_but_false_and_none_do_not() -> None:
    assert await eventually(lambda: 0) == 0
    assert await eventually(list) == []
    with pytest.raises(NotYet, match="last result: None"):
        await eventually(lambda: None, within=1)


@pytest.mark.simulated
async def test_a_call_that_hangs_is_cancelled() -> None:
    with pytest.raises(NotYet, match="in 0 calls"):
        await eventually(anyio.sleep_forever, within=2)
    assert anyio.current_time() == 2
