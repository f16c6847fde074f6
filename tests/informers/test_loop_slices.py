"""Big loads: when others get their turn, and when the garbage collector waits."""

import gc
from collections.abc import Iterator

import anyio
import pytest

from informers import loop_slices
from informers.loop_slices import LOOK_EVERY, LoopSlice, collector_paused
from tests.helpers.scenarios import simulated


class Time:
    """A time that the test sets, in seconds."""

    now = 100.0


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(loop_slices, "SLICE", 0.5)
    monkeypatch.setattr(anyio, "current_time", lambda: found.now)
    return found


@pytest.mark.parametrize(("passed", "due"), [(0.0, False), (0.5, False), (0.75, True), (60.0, True)])
def test_a_pause_is_due_when_work_has_taken_longer_than_its_slice(
    time: Time, passed: float, due: bool
) -> None:
    pace = LoopSlice()
    pace.start()
    time.now += passed
    assert [pace.due() for _ in range(2 * LOOK_EVERY)] == [*[False] * (LOOK_EVERY - 1), due] * 2


@pytest.mark.parametrize("pieces", [2, 8, LOOK_EVERY, LOOK_EVERY + 1])
def test_several_concurrent_pieces_of_work_count_separately(time: Time, pieces: int) -> None:
    pace = LoopSlice()
    pace.start()
    time.now += 1
    before = LOOK_EVERY // pieces - 1 if pieces <= LOOK_EVERY else 0
    assert [pace.due(pieces) for _ in range(before + 1)] == [*[False] * before, True]


@simulated
async def test_work_starts_a_new_slice_after_a_pause_in_which_others_ran() -> None:
    turns: list[str] = []

    async def another() -> None:
        turns.append("another")

    pace = LoopSlice()
    pace.start()
    await anyio.sleep(1)
    assert pace.due(LOOK_EVERY)
    async with anyio.create_task_group() as group:
        group.start_soon(another)
        for _ in range(10):
            await pace.pause()
        assert turns == ["another"]
    assert not pace.due(LOOK_EVERY - 1)
    assert not pace.due()


@pytest.fixture
def _collector() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


@pytest.mark.usefixtures("_collector")
@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_resumes_its_former_state_after_the_last_load(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    for _ in range(2):
        first, second = collector_paused(), collector_paused()
        first.__enter__()
        second.__enter__()
        assert not gc.isenabled()
        first.__exit__(None, None, None)
        assert not gc.isenabled()
        second.__exit__(None, None, None)
        assert gc.isenabled() == enabled


@pytest.mark.usefixtures("_collector")
def test_a_failed_load_leaves_the_collector_enabled() -> None:
    gc.enable()
    with pytest.raises(OSError, match="broken"), collector_paused():
        raise OSError("broken")
    assert gc.isenabled()
