"""The options of a manager, as `reconcile run` takes them."""

import json
import re
import signal
import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from reconcile.commands import main
from reconcile.manager.option_list import TEXT_OPTIONS, flag_of
from tests.commands.helpers import running

OPERATOR = """
from reconcile import Controller, Manager
from reconcile.kinds import ConfigMap

async def keep(ctx):
    return None

maps = Controller(ConfigMap, keep, name="maps")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "map_operator.py").write_text(OPERATOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_run_serves_its_pages_leads_by_a_lease_and_logs_its_state_on_sigusr1(here: Path) -> None:
    flags = ("--serve", "127.0.0.1:0", "--leader-election", "default/maps", "--ready-when", "leading")
    with running("run", "map_operator:maps", "--embedded", *flags, home=here) as command:
        command.wait_for("export KUBECONFIG=")
        command.wait_for_log('"maps"')
        found = re.search(r'"address": "([^"]+)"', command.complaints)
        assert found is not None
        with urllib.request.urlopen(f"http://{found[1]}/readyz?verbose") as page:
            assert b"[+]leader ok" in page.read()
        command.process.send_signal(signal.SIGUSR1)
        command.wait_for_log('"event": "state"')
        assert command.seconds_to_end() < 2
        lines = [json.loads(line) for line in command.complaints.splitlines()]
    (state,) = [line["state"] for line in lines if line["event"] == "state"]
    assert state["leading"] is True
    assert list(state["controllers"]) == ["maps"]
    assert "default/maps" in [line.get("leader_election") for line in lines]


@pytest.mark.parametrize(
    ("variable", "flags", "complaint"),
    [
        ("RECONCILE_SERV", [], "there is no option RECONCILE_SERV: the nearest is RECONCILE_SERVE"),
        ("RECONCILE_SERVE", [], "RECONCILE_SERVE: expected HOST:PORT"),
        ("OTHER", ["--stop-seconds", "soon"], "--stop-seconds: expected a number of seconds, got 'soon'"),
    ],
)
def test_an_unknown_option_or_value_is_reported_in_one_line_with_exit_status_2(
    variable: str,
    flags: list[str],
    complaint: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, "nowhere")
    assert main(["run", "map_operator:maps", "--embedded", *flags]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {complaint}")
    assert said.count("\n") == 1


def test_a_port_in_use_is_reported_in_one_line_with_exit_status_2(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["run", "map_operator:maps", "--embedded", "--serve", address]) == 2
    assert f"error: cannot serve on {address}" in capsys.readouterr().err


def test_every_option_of_a_manager_has_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    said = capsys.readouterr().out
    assert [name for name in TEXT_OPTIONS if flag_of(name) not in said] == []
