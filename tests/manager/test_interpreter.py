"""Interpreters that a manager warns of, and what it has their garbage collector spare."""

import gc
import logging
from collections.abc import Callable, Iterator

import anyio
import pytest

import reconcile.manager.manager
from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.commands import run_command
from reconcile.kinds import ConfigMap
from reconcile.manager.interpreter import collects_in_increments
from reconcile.manager.signals import Stop
from reconcile.testing import FakeClient, VirtualClock, simulate


@pytest.mark.parametrize(
    ("version", "increments"),
    [((3, 13, 9), False), ((3, 14, 0), True), ((3, 14, 4), True), ((3, 14, 5), False), ((3, 15, 0), False)],
)
def test_only_the_first_patches_of_3_14_collect_in_increments(
    version: tuple[int, ...], increments: bool
) -> None:
    assert collects_in_increments("cpython", version, False) is increments


def test_other_interpreters_and_free_threaded_builds_have_collectors_of_their_own() -> None:
    assert not collects_in_increments("pypy", (3, 14, 0), False)
    assert not collects_in_increments("cpython", (3, 14, 0), True)


@pytest.mark.parametrize("increments", [True, False])
def test_a_manager_warns_of_such_a_collector_once_at_its_start(
    increments: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile.manager.manager, "collects_in_increments", lambda: increments)

    async def start() -> None:
        async with Manager(transport=FakeClient().transport, clock=VirtualClock(0), environ={}):
            pass

    simulate(start)
    lines = [record for record in caplog.records if "garbage collector" in record.getMessage()]
    assert [line.levelno for line in lines] == [logging.WARNING] * increments


def frozen_within_a_run(start: Callable[[Manager], None]) -> int:
    """How many objects the collector spares while a manager works."""
    counts: list[int] = []

    async def count(ctx: Context[ConfigMap]) -> None:
        counts.append(gc.get_freeze_count())
        manager.stop()

    client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
    manager = Manager(Controller(ConfigMap, count), transport=client.transport, environ={})
    start(manager)
    return counts[0]


async def inside_an_application(manager: Manager) -> None:
    async with manager:
        await manager.wait()


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """The tests freeze what they import; here the manager meets a process that has not."""
    gc.unfreeze()
    yield
    gc.freeze()


def by_reconcile_run(manager: Manager) -> None:
    anyio.run(run_command._run, manager, Stop(manager.stop))


@pytest.mark.usefixtures("nothing_frozen")
@pytest.mark.parametrize("start", [Manager.main, by_reconcile_run])
def test_a_program_has_the_collector_spare_what_exists_at_its_start_until_its_end(
    start: Callable[[Manager], None],
) -> None:
    assert frozen_within_a_run(start) > 10_000
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_inside_an_application_the_collector_spares_nothing() -> None:
    assert frozen_within_a_run(lambda manager: anyio.run(inside_an_application, manager)) == 0


def test_a_program_that_has_frozen_objects_itself_keeps_just_those() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    # Fewer by what has been freed since.
    assert 10_000 < frozen_within_a_run(Manager.main) <= before
    assert 10_000 < gc.get_freeze_count() <= before
