"""What a viewer of the status page is sent, in virtual time."""

import anyio
import anyio.lowlevel
import pytest

from reconcile import Context, Controller, Manager, ObjectMeta, Result
from reconcile.status.object_health import HEALTHS
from reconcile.status.status_stream import BATCH, QUIET_SECONDS, BatchPace, Viewer
from tests.helpers.managers import Toy, ToySpec, World, idle, played
from tests.helpers.viewers import SeenPage, Watching, board_of, events_in, watching


def states_of(page: SeenPage) -> set[str]:
    return {row.state for row in page.rows.values()}


async def fail_if_large(ctx: Context[Toy]) -> None:
    if ctx.object.spec.size > 9:
        raise ValueError("too large: password=hunter2")


def test_a_viewer_is_greeted_and_gets_an_overview_and_all_rows_those_that_fail_first() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, fail_if_large)) as manager:
            board = board_of(manager)
            for number in range(3):
                await world.make(f"t{number}")
            await world.make("large", size=10)
            await anyio.sleep(1)
            page = await watching(board).until_complete()
            assert [name for name, _ in page.events] == ["hello", "overview", "rows"]
            assert page.hello["controllers"] == ["toy"]
            assert (page.hello["version"], page.hello["identity"], page.hello["actions"]) == (
                "1.2.3",
                "me",
                True,
            )
            assert page.overview["controllers"][0]["objects"] == dict(
                zip(HEALTHS, (1, 0, 0, 0, 3), strict=True)
            )
            assert next(iter(page.rows.values())).key == "default/large"
            failing = page.of("default/large")
            assert failing is not None
            assert failing.state == "back-off"
            assert failing.failures > 1
            assert failing.next_at is not None
            assert failing.next_at > page.hello["now"]
            healthy = page.of("default/t0")
            assert healthy is not None
            assert (healthy.word, healthy.state, healthy.sentence) == ("healthy", "resting", "")
            assert healthy.created is not None
            assert healthy.ended is not None
            assert healthy.created <= healthy.ended <= page.hello["now"]

    played(scenario)


def test_a_viewer_before_the_first_object_gets_an_empty_full_set() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            page = await watching(board_of(manager)).until_complete()
            assert page.events[-1] == ("rows", {"first": True, "last": True, "rows": [], "gone": []})

    played(scenario)


def test_the_full_set_comes_in_batches_of_at_most_500_rows_without_waits_in_between() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            for number in range(2 * BATCH + 1):
                await world.make(f"t{number}")
            await anyio.sleep(1)
            began = anyio.current_time()
            page = await watching(board).until_complete()
            assert anyio.current_time() - began < 0.05
            batches = [data for name, data in page.events if name == "rows"]
            assert [len(batch["rows"]) for batch in batches] == [BATCH, BATCH, 1]
            assert [(batch["first"], batch["last"]) for batch in batches] == [
                (True, False),
                (False, False),
                (False, True),
            ]
            assert len(page.rows) == 2 * BATCH + 1

    played(scenario)


@pytest.mark.rule("status-calm")
def test_a_change_is_sent_within_50_ms_when_it_is_calm() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            await world.make("a")
            watcher = watching(board)
            await watcher.until_complete()
            await watcher.during(2)
            run = manager.runs("toy").ends
            assert run is not None
            began: list[float] = []
            run.follow(lambda _: began.append(anyio.current_time()))
            manager.trigger("toy", "default/a")
            before = watcher.page.of("default/a")
            await watcher.until(lambda page: page.of("default/a") != before)
            assert anyio.current_time() - began[-1] <= 0.05

    played(scenario)


@pytest.mark.rule("status-calm")
def test_in_a_burst_there_are_at_most_five_batches_a_second_and_the_newest_state_comes() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            for number in range(20):
                await world.make(f"t{number}")
            watcher = watching(board)
            await watcher.until_complete()
            await watcher.during(2)
            watcher.page.events.clear()
            times: list[float] = []

            async def churn() -> None:
                for _ in range(1000):
                    manager.trigger("toy", f"default/t{_ % 20}")
                    await anyio.sleep(0.005)

            async with anyio.create_task_group() as group:
                group.start_soon(churn)
                with anyio.move_on_after(5):
                    while True:
                        text = await watcher.viewer.next()
                        watcher.page.take(text)
                        if b"event: rows" in text:
                            times.append(anyio.current_time())
            assert len(times) > 10
            for at in times:
                assert len([each for each in times if at <= each < at + 1]) <= 5
            await watcher.during(2)
            ends = manager.runs("toy").ends
            assert ends is not None
            for row in watcher.page.rows.values():
                assert row.state == "resting"

    played(scenario)


def test_the_pace_lets_two_batches_through_at_once_and_three_a_second_then() -> None:
    pace, now, sent = BatchPace(), 100.0, []
    while now < 103:
        wait = pace.wait(now)
        if wait == 0:
            pace.sent()
            sent.append(now)
        now += max(wait, 0.001)
    assert len([at for at in sent if at < 100.1]) == 2
    assert 4 <= len([at for at in sent if at < 101]) <= 5
    assert len([at for at in sent if 102 <= at < 103]) == 3


def test_a_deleted_object_is_gone_and_one_made_anew_is_there_again() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            toy = await world.make("a")
            await anyio.sleep(1)
            watcher = watching(board)
            await watcher.until_complete()
            first = watcher.page.of("default/a")
            assert first is not None
            await world.client.delete(toy)
            await watcher.until(lambda page: not page.rows)
            assert watcher.page.events[-1][1]["gone"] == [first.id]
            await world.make("a")
            await watcher.until(lambda page: page.of("default/a") is not None)

    played(scenario)


def test_pauses_of_a_key_and_of_a_controller_are_seen_although_nothing_is_called_for_them() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            await world.make("a")
            await world.make("b")
            await anyio.sleep(1)
            watcher = watching(board)
            await watcher.until_complete()
            await watcher.during(2)
            (runner,) = manager._runners
            (request,) = [each for each in runner.history.ends._newer if each.name == "a"]  # type: ignore[union-attr]
            runner.rest(request)
            at = anyio.current_time()
            await watcher.until(lambda page: page.of("default/a").state == "paused")
            assert anyio.current_time() - at <= 0.07
            assert watcher.page.of("default/b").state == "resting"  # type: ignore[union-attr]
            runner.wake(request)
            await watcher.until(lambda page: page.of("default/a").state == "resting")
            await watcher.during(2)
            manager.pause("toy")
            await watcher.until(lambda page: all(row.state == "paused" for row in page.rows.values()))
            await watcher.until(lambda page: page.overview["controllers"][0]["paused"])
            manager.resume("toy")
            await watcher.until(lambda page: all(row.state == "resting" for row in page.rows.values()))

    played(scenario)


def test_a_key_that_waits_for_a_busy_worker_is_shown_as_queued_and_a_run_as_running() -> None:
    async def sleep(ctx: Context[Toy]) -> None:
        await anyio.sleep(20)

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, sleep, workers=1)) as manager:
            board = board_of(manager)
            watcher = watching(board)
            await watcher.until_complete()
            await world.make("a")
            await world.make("b")
            await watcher.until(
                lambda page: {row.state for row in page.rows.values()} == {"running", "queued"}
            )
            (queued,) = [row for row in watcher.page.rows.values() if row.state == "queued"]
            assert queued.sentence == "waits for the only worker"
            (running,) = [row for row in watcher.page.rows.values() if row.state == "running"]
            await watcher.until(lambda page: page.rows[running.id].sentence > "running for 5")
            await watcher.until(lambda page: page.rows[queued.id].state == "running")

    played(scenario)


def test_a_due_time_is_sent_and_its_words_do_not_grow_old() -> None:
    async def later(ctx: Context[Toy]) -> Result:
        return Result(requeue_after=100)

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, later)) as manager:
            board = board_of(manager)
            await world.make("a")
            await anyio.sleep(1)
            watcher = watching(board)
            await watcher.until_complete()
            row = watcher.page.of("default/a")
            assert row is not None
            assert row.next_at is not None
            assert 95 < row.next_at - watcher.page.hello["now"] < 101
            await watcher.during(60)
            row = watcher.page.of("default/a")
            assert row is not None
            left = float(row.sentence.rpartition("in ")[2].removesuffix(" s"))
            assert left < 60

    played(scenario)


def test_conditions_are_in_the_row_and_decide_the_health() -> None:
    async def report(ctx: Context[Toy]) -> None:
        ready = ctx.object.spec.size > 1
        ctx.condition("Ready", ready, reason="Sized" if ready else "TooSmall")

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, report)) as manager:
            board = board_of(manager)
            await world.make("small")
            await world.make("large", size=2)
            watcher = watching(board)
            await watcher.until(lambda page: [len(row.conditions) for row in page.rows.values()] == [1, 1])
            small, large = watcher.page.of("default/small"), watcher.page.of("default/large")
            assert small is not None
            assert large is not None
            assert (small.word, small.reason, small.conditions) == (
                "progressing",
                "Ready=False: TooSmall",
                ["Ready=False"],
            )
            assert (large.word, large.conditions) == ("healthy", ["Ready=True"])

    played(scenario)


def test_a_selector_leaves_objects_out() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle, selector="team=red")) as manager:
            board = board_of(manager)
            await world.make("other")
            meta = ObjectMeta("mine", "default", labels={"team": "red"})
            await world.client.create(Toy(metadata=meta, spec=ToySpec()))
            await anyio.sleep(1)
            page = await watching(board).until_complete()
            assert [row.key for row in page.rows.values()] == ["default/mine"]

    played(scenario)


def test_a_controller_that_is_added_begins_a_new_stream_of_its_own_rows_too() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            await world.make("a")
            await anyio.sleep(1)
            watcher = watching(board)
            await watcher.until_complete()
            await manager.add(Controller(Toy, idle, name="second"))
            await watcher.until(lambda page: page.hello["controllers"] == ["toy", "second"])
            await watcher.until_complete()
            assert watcher.page.of("default/a", 0) is not None
            assert watcher.page.of("default/a", 1) is not None
            await manager.remove("second")
            await watcher.until(lambda page: page.hello["controllers"] == ["toy"])
            await watcher.until_complete()
            assert len(watcher.page.rows) == 1

    played(scenario)


def test_an_overview_in_which_only_times_change_is_sent_every_five_seconds() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            watcher = watching(board)
            await watcher.until_complete()
            await watcher.during(70)  # what the last minute has had is over
            watcher.page.events.clear()
            await watcher.during(20 * QUIET_SECONDS)
            names = [name for name, _ in watcher.page.events]
            assert set(names) == {"overview"}
            assert 19 <= len(names) <= 21

    played(scenario)


@pytest.mark.rule("status-calm")
def test_without_a_viewer_nothing_is_followed_and_nothing_is_remembered() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            (runner,) = manager._runners
            handlers = _handlers_of(manager)
            await world.make("a")
            first, second = watching(board), watching(board)
            await first.until_complete()
            await second.until_complete()
            assert _handlers_of(manager) == handlers + 1
            assert runner.queue.on_add is not None
            first.viewer.leave()
            await second.during(1)
            assert runner.queue.on_add is not None
            second.viewer.leave()
            assert _handlers_of(manager) == handlers
            assert runner.queue.on_add is None
            assert runner.history.ends is not None
            assert runner.history.ends._onlookers == ()
            assert (board.rows, board.controllers) == ({}, [])
            assert await second.viewer.next() == b""  # it does not come back

    played(scenario)


def _handlers_of(manager: Manager) -> int:
    (informer,) = [*manager._clusters.members[0].cache]
    return len(informer._handlers.registrations)


@pytest.mark.rule("status-calm")
def test_a_viewer_that_reads_nothing_costs_a_number_a_row_and_then_gets_the_newest_state() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            toys = [await world.make(f"t{number}") for number in range(5)]
            slow, quick = watching(board), watching(board)
            await slow.until_complete()
            await quick.until_complete()
            for _ in range(200):
                manager.trigger("toy", "default/t0")
                await quick.during(0.05)
            assert len(slow.viewer._pending) <= 5
            await world.client.delete(toys[4])
            await quick.during(2)
            text = await slow.viewer.next()
            (rows,) = [data for name, data in events_in(text) if name == "rows"]
            assert len(rows["rows"]) <= 4
            assert len(rows["gone"]) == 1

    played(scenario)


def test_a_viewer_that_leaves_at_any_await_leaves_nothing_behind() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, idle)) as manager:
            board = board_of(manager)
            handlers = _handlers_of(manager)
            for number in range(40):
                await world.make(f"t{number}")
            await anyio.sleep(1)
            for steps in range(30):
                viewer = Viewer(board, actions=True)
                async with anyio.create_task_group() as group:
                    group.start_soon(_read, viewer)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    group.cancel_scope.cancel()
                viewer.leave()
                assert _handlers_of(manager) == handlers
                assert board.rows == {}
            assert len((await watching(board).until_complete()).rows) == 40

    played(scenario)


async def _read(viewer: Viewer) -> None:
    while await viewer.next():
        pass


def shown_texts(page: SeenPage) -> str:
    return repr(page.events)


def test_what_looks_like_a_password_and_what_a_class_declares_secret_is_nowhere() -> None:
    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, fail_if_large)) as manager:
            board = board_of(manager)
            await world.make("large", size=10)
            watcher: Watching = watching(board)
            await watcher.during(5)
            assert "hunter2" not in shown_texts(watcher.page)
            assert "<hidden>" in shown_texts(watcher.page)

    played(scenario)
