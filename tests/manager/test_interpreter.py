"""Interpreters that a manager warns of."""

import logging

import pytest

import reconcile.manager.manager
from reconcile import Manager
from reconcile.manager.interpreter import collects_in_increments
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
