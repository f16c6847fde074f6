"""Nobody waits in silence: what takes long says what it is at."""

import logging
import sys
import time

import anyio
import pytest

from reconcile import Controller, Manager
from reconcile.commands import progress as progressing
from reconcile.commands import run_command
from reconcile.commands.progress import progress
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient, simulate
from reconcile.testing.faults import Fault, FaultPlan, SlowReply, When
from tests.helpers.managers import idle


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progressing, "PATIENCE", 0.02)


def test_a_slow_command_shows_its_progress_on_a_terminal(
    impatient: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("reading crd.yaml"):
        time.sleep(0.2)
    with progress("being quick"):
        pass
    time.sleep(0.1)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "still reading crd.yaml ...\n")


def test_without_a_terminal_there_is_no_line_of_progress(
    impatient: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("reading crd.yaml"):
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_run_names_the_lists_that_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeClient(plan=FaultPlan((Fault(When("*", "*/configmaps", times=2), SlowReply(15)),)))

    async def story() -> None:
        manager = Manager(
            Controller(ConfigMap, idle), transport=client.transport, clock=client.clock, environ={}
        )
        with run_command.logging_late_lists(manager):
            async with manager:
                await anyio.sleep(60)

    with caplog.at_level(logging.INFO):
        simulate(story)
    told = [one for one in caplog.records if vars(one)["event"] == "waiting for first lists"]
    assert 2 <= len(told) <= 4
    assert told[0].resources == ["configmaps"]  # type: ignore[attr-defined]
