"""Ageing, the minimum interval, and the heap below them."""

import math
from collections import Counter

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.workqueue.helpers import Simulate, drained, end, starts, take, virtual
from workqueue import WorkQueue
from workqueue.order import _FEW, Heap, StrictOrder
from workqueue.pacing import Pace


@pytest.mark.rule("queue-memory")
def test_places_vacated_by_raised_keys_are_forgotten_once_they_are_passed() -> None:
    order: StrictOrder[str] = StrictOrder()
    for key in ("a", "b", "stays"):
        order.push(key, 0, 0.0)
    order.raised("a", 0, 1, 0.0)
    assert [order.pop(), order.pop()] == ["a", "b"]
    (members,) = order._classes.values()
    assert (list(members.places), members.stale, members.number_of_stale) == (["stays"], {}, 0)


@pytest.mark.rule("queue-ageing")
@virtual
async def test_without_ageing_low_priority_waits_as_long_as_there_is_a_higher_one() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("low", priority=-1)
    for number in range(100):
        queue.add(f"high {number}")
        await anyio.sleep(1)
        async with queue.get() as item:
            assert item.key == f"high {number}"


@pytest.mark.rule("queue-ageing")
@virtual
async def test_with_ageing_low_priority_is_served_once_its_age_compensates_for_it() -> None:
    queue: WorkQueue[str] = WorkQueue(ageing=2)
    queue.add("low", priority=-10)
    order = []
    for number in range(30):
        queue.add(f"high {number}")
        async with queue.get() as item:
            order.append(item.key)
        await anyio.sleep(1)
    assert order.index("low") == 20  # then it is level with a new one, and came first


@pytest.mark.rule("queue-ageing", "P3")
@virtual
async def test_raising_an_old_key_keeps_its_age() -> None:
    queue: WorkQueue[str] = WorkQueue(ageing=1)
    queue.add("old", priority=-10)
    await anyio.sleep(9.5)
    queue.add("old", priority=-9)
    queue.add("new")
    assert await drained(queue) == ["old", "new"]


@pytest.mark.rule("queue-interval")
@virtual
async def test_a_key_starts_no_sooner_than_an_interval_after_it_last_started() -> None:
    queue: WorkQueue[str] = WorkQueue(min_interval=10)
    queue.add("a")
    async with queue.get():
        await anyio.sleep(4)
        queue.add("a")
    queue.add("b")
    assert await starts(queue, 60) == [("b", 0), ("a", 6)]
    queue.add("a")
    assert await starts(queue, 5) == [("a", 0)]


@pytest.mark.rule("queue-interval")
@virtual
async def test_an_urgent_add_bypasses_the_interval_and_restarts_it() -> None:
    queue: WorkQueue[str] = WorkQueue(min_interval=10)
    queue.add("a")
    await drained(queue)
    queue.add("a")
    await anyio.sleep(3)
    assert len(queue) == 0
    queue.add("a", urgent=True)
    assert await drained(queue) == ["a"]
    queue.add("a")
    assert await starts(queue, 60) == [("a", 10)]


@pytest.mark.rule("queue-interval")
@virtual
async def test_failed_work_returns_after_the_interval_or_on_an_urgent_add() -> None:
    queue: WorkQueue[str] = WorkQueue(min_interval=10)
    for urgent in (False, True):
        queue.add("a")
        work, _ = await take(queue)
        queue.add("a", urgent=urgent)
        await end(work, RuntimeError())
        assert await starts(queue, 60) == [("a", 0 if urgent else 10)]


@pytest.mark.rule("queue-interval")
@virtual
async def test_a_delay_longer_than_the_interval_counts_and_a_shorter_one_does_not() -> None:
    queue: WorkQueue[str] = WorkQueue(min_interval=10)
    for key in ("short", "long"):
        queue.add(key)
    await drained(queue)
    queue.add_after("short", 4)
    queue.add_after("long", 40)
    assert await starts(queue, 60) == [("short", 10), ("long", 40)]


@pytest.mark.rule("queue-interval")
@given(interval=st.floats(1e-9, 1e6), start=st.floats(0, 1e9))
def test_an_interval_of_any_length_ends_on_time_at_any_clock_value(
    simulate: Simulate, interval: float, start: float
) -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(min_interval=interval)
        await anyio.sleep(start)
        for _ in range(5):
            queue.add("a")
            async with queue.get():
                began = anyio.current_time()
            queue.add("a")
            async with queue.get():
                assert anyio.current_time() >= began + interval

    simulate(scenario, limit_seconds=1e10)


@pytest.mark.rule("queue-memory")
def test_a_restarted_key_does_not_keep_others_in_memory() -> None:
    pace: Pace[str] = Pace(10)
    pace.start("urgent", 0)
    pace.start("other", 1)
    pace.start("urgent", 5)
    pace.forget_passed(11)
    assert len(pace) == 1
    assert pace.held("urgent", 11) == 15


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.floats(-1e9, 1e9)),
            st.tuples(st.just("remove"), st.integers(0, 10**6)),
            st.tuples(st.just("pop"), st.none()),
        ),
        max_size=300,
    )
)
def test_a_heap_with_removals_from_the_middle_still_yields_the_lowest_first(
    steps: list[tuple[str, float]],
) -> None:
    heap: Heap[int] = Heap()
    plain: list[tuple[float, int]] = []
    for number, (step, value) in enumerate(steps):
        if step == "push":
            heap.push(number, value)
            plain.append((value, number))
        elif plain and step == "remove":
            _, key = plain.pop(int(value) % len(plain))
            heap.remove(key)
        elif plain:
            lowest = min(plain)
            plain.remove(lowest)
            assert heap.pop() == lowest[1]
        assert len(heap) == len(plain)
        assert heap.first == min((rank for rank, _ in plain), default=math.inf)
        assert set(heap.members()) == {key for _, key in plain}


@pytest.mark.rule("queue-memory")
def test_a_heap_that_lost_most_entries_is_compacted_and_loses_nothing() -> None:
    heap: Heap[str] = Heap()
    names = [f"key {number}" for number in range(500)]
    for number, name in enumerate(names):
        heap.push(name, number)
    for name in names[20:480]:
        heap.remove(name)
        assert len(heap._items) <= 2 * len(heap) + _FEW
    left = [*names[:20], *names[480:]]
    assert set(heap.members()) == set(left)
    assert [heap.pop() for _ in left] == left
    assert heap.first == math.inf


@virtual
async def test_keys_due_at_the_same_time_keep_their_order_when_one_is_added_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "a"):
        queue.add_after(key, 5)
    await anyio.sleep(6)
    assert await drained(queue) == ["a", "b"]


@pytest.mark.rule("queue-arguments")
@pytest.mark.parametrize("interval", [0.0, -1.0, math.inf, math.nan])
def test_a_pace_needs_a_finite_interval(interval: float) -> None:
    with pytest.raises(ValueError, match="a finite minimum interval"):
        Pace(interval)


@pytest.mark.rule("P2", "P5")
@given(
    st.lists(st.one_of(st.tuples(st.integers(0, 5), st.integers(0, 2)), st.just("pop")), max_size=300),
    st.booleans(),
)
@example([(0, 0), (0, 1), "pop", (0, 0), (0, 1), "pop", (1, 0), (0, 0)], True)
def test_keys_are_served_by_priority_and_then_in_order_through_removals_and_raises(
    steps: list[tuple[int, int] | str], crowded: bool
) -> None:
    order: StrictOrder[int] = StrictOrder()
    plain: list[tuple[int, int, int]] = []  # priority falling, place, key
    others = 100 if crowded else 0  # at the lowest priority, so that no class is swept or ends
    for number in range(others):
        order.push(-number - 1, 0, 0.0)
        plain.append((0, number, -number - 1))
    for place, step in enumerate([*steps, *["pop"] * (others + len(steps))], others):
        if isinstance(step, tuple):
            key, priority = step
            known = next((item for item in plain if item[2] == key), None)
            if known is None:
                order.push(key, priority, 0.0)
                plain.append((-priority, place, key))
            elif priority > -known[0]:
                order.raised(key, -known[0], priority, 0.0)
                plain[plain.index(known)] = (-priority, place, key)
        elif plain:
            assert order.pop() == min(plain)[2]
            plain.remove(min(plain))
        assert len(order) == len(plain)
        assert order.depths() == Counter(-falling for falling, _, _ in plain)


@pytest.mark.rule("P5", "queue-memory")
def test_raised_keys_leave_their_old_priority_in_memory_too() -> None:
    order: StrictOrder[int] = StrictOrder()
    for key in range(1000):
        order.push(key, 0, 0.0)
    for key in range(990):
        order.raised(key, 0, 1, 0.0)
        assert order.depths()[1] == key + 1
        members = order._classes[0]
        assert len(members.places) <= 2 * len(members) + _FEW
    assert (len(order), order.depths()) == (1000, {0: 10, 1: 990})
    assert [order.pop() for _ in range(1000)] == list(range(1000))
    with pytest.raises(IndexError):
        order.pop()
    assert order.depths() == {}


@pytest.mark.rule("queue-memory")
def test_removed_entries_do_not_accumulate_in_a_heap() -> None:
    heap: Heap[int] = Heap()
    heap.push(-1, 0.0)
    for number in range(1000):
        heap.push(number, 1.0)
        heap.remove(number)
    assert len(heap._items) < 100


@pytest.mark.rule("queue-memory")
def test_a_few_removed_entries_do_not_cause_a_compaction_each() -> None:
    """A sweep looks at all that is there: one for each key would cost the square of their number."""
    heap: Heap[int] = Heap()
    order: StrictOrder[int] = StrictOrder()
    for key in range(_FEW + 4):
        heap.push(key, key)
        order.push(key, 0, 0.0)
    sizes: list[tuple[int, int]] = []
    for key in range(_FEW + 3, 0, -1):
        heap.remove(key)
        order.raised(key, 0, 1, 0.0)
        sizes.append((len(heap._items), len(order._classes[0].places)))
    assert sizes == [(_FEW + 4, _FEW + 4)] * (_FEW + 2) + [(1, 1)]
