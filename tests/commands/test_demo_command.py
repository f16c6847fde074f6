"""`reconcile demo`, as a person meets it."""

import io
import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reconcile.commands import main
from reconcile.commands.demo_command import commands_in
from reconcile.commands.demo_screen import incident_table, result_line
from reconcile.commands.incident_play import AT_ONCE, IncidentPlay, SideResult, SideRunning
from reconcile.simulation import Incident, IncidentVerdict
from tests.commands import fake_incidents
from tests.commands.helpers import Command, complaint, running

Offer = Callable[..., None]

ENTRY_POINTS = """
[reconcile.controllers]
fleets = controllers.fleets:controllers
node-groups = controllers.nodegroups:controller
worker-groups = controllers.workergroups:controller
registry-secrets = controllers.registrysecrets:controller
[reconcile.incidents]
{name} = tests.commands.fake_incidents:{name}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo puts its files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Make these the incidents that are installed."""

    def use(*incidents: Incident) -> None:
        by_name = {incident.name: incident for incident in incidents}
        monkeypatch.setattr("reconcile.commands.demo_command.bundled_incidents", lambda: by_name)

    fake_incidents.SEEN.clear()
    use(fake_incidents.quick)
    return use


def demo_with(name: str, *arguments: str, home: Path) -> Any:
    """The demo as a process of its own, with one of the fake incidents in place of the bundled ones."""
    information = home / "reconcile_runtime-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: reconcile-runtime\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS.format(name=name))
    return running("demo", *arguments, home=home, path=home)


# --- playing -----------------------------------------------------------------------------------


def test_each_incident_is_played_on_the_originals_logic_and_on_ours(offer: Offer, home: Path) -> None:
    assert main(["demo", "--once"]) == 0
    assert fake_incidents.SEEN == ["quick-original original embedded https", "quick-ours ours embedded https"]


def test_the_report_has_our_counts_and_those_of_the_original(offer: Offer, home: Path) -> None:
    assert main(["demo", "--once", "--json", str(home / "out.json")]) == 0
    assert json.loads((home / "out.json").read_text()) == {
        "incidents": [
            {
                "name": "quick",
                "ok": True,
                "deleted": 1,
                "created": 0,
                "seconds": 1.5,
                "original": {
                    "ok": False,
                    "deleted": 3,
                    "created": 2,
                    "seconds": 1.23,
                    "explanation": "three went",
                },
            }
        ]
    }


def test_a_sabotaged_incident_fails_the_run_and_the_others_are_unaffected(
    offer: Offer, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(fake_incidents.quick, fake_incidents.lucky)
    assert main(["demo", "--sabotage", "quick", "--json", str(home / "out.json")]) == 1
    quick, lucky = json.loads((home / "out.json").read_text())["incidents"]
    assert (quick["ok"], quick["deleted"], quick["created"]) == (False, 3, 2)
    assert (lucky["ok"], lucky["writes"]) == (True, 0)
    assert [line.split()[1] for line in fake_incidents.SEEN] == ["original", "original"]
    assert "did not hold: quick (sabotaged)" in capsys.readouterr().out


def test_one_incident_can_be_played_alone(offer: Offer, home: Path) -> None:
    offer(fake_incidents.quick, fake_incidents.lucky)
    assert main(["demo", "--once", "--only", "lucky", "--json", str(home / "out.json")]) == 0
    played = json.loads((home / "out.json").read_text())["incidents"]
    assert [incident["name"] for incident in played] == ["lucky"]


def test_incidents_run_side_by_side_longest_first_and_are_reported_in_order(
    offer: Offer, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, incidents = fake_incidents.crowd("abcde")
    offer(*incidents)
    assert main(["demo", "--once", "--json", str(home / "out.json")]) == 0
    assert max(counts) == AT_ONCE
    assert sorted(fake_incidents.SEEN[:AT_ONCE]) == ["c-original", "d-original", "e-original"]
    played = json.loads((home / "out.json").read_text())["incidents"]
    assert [incident["name"] for incident in played] == list("abcde")
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines if line.endswith("holds")] == list("abcde")


def test_an_incident_that_has_not_started_has_no_line_of_progress(
    offer: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(*fake_incidents.crowd("abcde")[1])
    assert main(["demo", "--once"]) == 0
    out = capsys.readouterr().out
    assert "waiting" not in out
    assert all(re.search(rf"^ +\d+\.\d s  {name}  done$", out, re.MULTILINE) for name in "abcde")


def test_an_original_that_passes_is_a_note(offer: Offer, capsys: pytest.CaptureFixture[str]) -> None:
    offer(fake_incidents.lucky)
    assert main(["demo", "--once"]) == 0
    assert "note: lucky: the original did not fail this time" in capsys.readouterr().out


def test_an_incident_that_breaks_fails_the_run(
    offer: Offer, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(fake_incidents.broken)
    assert main(["demo", "--once"]) == 1
    out = capsys.readouterr().out
    assert "note: broken: ours: could not be played: RuntimeError: the flood ran dry" in out
    log = Path(re.search(r"see (\S+)", out)[1])  # type: ignore[index]
    assert "the flood ran dry" in log.read_text()
    assert not (log.parent / "kubeconfig").exists()


def test_an_incident_that_does_not_end_is_given_up(
    offer: Offer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reconcile.commands.incident_play.TIME_LIMIT", 0.2)
    offer(fake_incidents.endless)
    assert main(["demo", "--once"]) == 1
    assert "it took longer than 0.2 s" in capsys.readouterr().out


def test_a_successful_demo_leaves_nothing_behind(offer: Offer, home: Path) -> None:
    assert main(["demo", "--once"]) == 0
    assert list(home.glob("reconcile-*")) == []


# --- bad input ---------------------------------------------------------------------------------


def test_an_unknown_incident_cannot_be_sabotaged(offer: Offer, capsys: pytest.CaptureFixture[str]) -> None:
    offer(fake_incidents.quick, fake_incidents.lucky)
    assert "the incidents are quick, lucky" in complaint(capsys, "demo", "--sabotage", "nonsense")


def test_the_option_only_refuses_unknown_incidents_and_sabotage_of_an_omitted_one(
    offer: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(fake_incidents.quick, fake_incidents.lucky)
    assert "the incidents are quick, lucky" in complaint(capsys, "demo", "--only", "nonsense")
    assert "the incidents are lucky" in complaint(capsys, "demo", "--only", "lucky", "--sabotage", "quick")


def test_a_report_that_cannot_be_written_is_detected_before_the_start(
    offer: Offer, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "No such file or directory" in complaint(
        capsys, "demo", "--once", "--json", str(home / "no" / "out.json")
    )
    assert "Is a directory" in complaint(capsys, "demo", "--once", "--json", str(home))


def test_a_port_in_use_is_reported_in_one_line_and_leaves_no_files(
    offer: Offer, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert f"port {port} on 127.0.0.1 is in use" in complaint(capsys, "demo", "--port", str(port))
    assert list(home.glob("reconcile-*")) == []


# --- on the screen -----------------------------------------------------------------------------


def held() -> IncidentPlay:
    play = IncidentPlay(fake_incidents.quick, now="ours: watching for 8 s, with 200 events a second")
    play.original = SideResult(IncidentVerdict(ok=False, deleted=3, created=2))
    play.ours = SideResult(IncidentVerdict(ok=True, deleted=1, created=0))
    return play


def rendered(play: IncidentPlay, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(incident_table([play], 3.0, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [44, 60, 80, 110])
def test_the_table_fits_and_is_complete_without_colours(width: int) -> None:
    text = rendered(held(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    for word in ("quick", "3 deleted", "2 created", "1 deleted", "0 created", "holds"):
        assert word in text
    assert "\x1b" not in text


def test_the_table_shows_how_long_a_side_has_been_played() -> None:
    play = IncidentPlay(fake_incidents.quick, original=SideRunning(since=1.0))
    assert "playing 2 s" in rendered(play, 110)


def test_a_failed_incident_is_shown_in_capitals() -> None:
    play = IncidentPlay(fake_incidents.quick, sabotaged=True)
    play.original = play.ours = SideResult(IncidentVerdict(ok=False, deleted=3, created=2))
    assert "FAILED" in rendered(play, 110)
    assert "sabotaged" in rendered(play, 110)


def test_a_result_line_shows_both_sides() -> None:
    assert result_line(held()) == "original: 3 deleted, 2 created | ours: 1 deleted, 0 created | holds"


def test_commands_to_try_are_read_from_the_samples_and_sorted_by_number() -> None:
    samples = ["# try 3: c d\nkind: A\n", "# A sample\n# try 1: a\n# try 2: b; c\nkind: B\n"]
    assert commands_in(samples) == ["a", "b; c", "c d"]


# --- staying up and ending ---------------------------------------------------------------------


def export_of(command: Command) -> Path:
    return Path(command.wait_for("export KUBECONFIG=").strip().removeprefix("export KUBECONFIG="))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stays_up_with_three_commands_to_try_until_a_signal(number: signal.Signals, home: Path) -> None:
    with demo_with("quick", home=home) as command:
        command.wait_for("the incident holds")
        kubeconfig = export_of(command)
        assert kubeconfig.is_file()
        tries = [command.wait_for("kubectl").strip() for _ in range(3)]
        command.wait_for("")
        if shutil.which("kubectl"):
            for line in tries:
                done = subprocess.run(
                    ["sh", "-ec", line],
                    env={
                        "KUBECONFIG": str(kubeconfig),
                        "PATH": "/usr/local/bin:/usr/bin:/bin",
                        "HOME": str(home),
                    },
                    capture_output=True,
                    text=True,
                    timeout=20,
                )
                assert done.returncode == 0, f"{line}\n{done.stderr}"
                assert done.stdout
        assert command.seconds_to_end(number) < 2
        assert command.process.returncode == 0
        assert "\x1b" not in command.said
        assert command.complaints == ""
    assert not kubeconfig.parent.exists()
    assert not [file for file in (home / ".kube").glob("*") if file.name != "cache"]


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--once",), 130)])
def test_ctrl_c_while_an_incident_is_played_ends_it_within_two_seconds(
    arguments: tuple[str, ...], status: int, home: Path
) -> None:
    with demo_with("endless", *arguments, home=home) as command:
        command.wait_for("waiting for ever")
        assert command.seconds_to_end() < 2
        assert command.process.returncode == status
        assert command.complaints == ""
    assert sorted(file.name for file in home.iterdir()) == ["reconcile_runtime-0.1.0.dist-info", "stderr"]
