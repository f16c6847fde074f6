"""`reconcile replay`: its report, its exit status, and the scenarios that it writes."""

import json
import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from reconcile.commands import main
from tests.commands.helpers import ROOT
from tests.recording.recorded_sites import recorded, site

PAGE = ROOT / "docs" / "how-to" / "replay-production.md"

SITES = """
from reconcile import Context, Controller, Intent, Manager, ObjectMeta
from reconcile.kinds import ConfigMap, Secret
from tests.recording.recorded_sites import Site, keep_site, sites

same = sites()


async def louder(ctx):
    data = {"text": ctx.object.spec.text.upper()}
    kept = ctx.attempt or ctx.causes[0].echo
    if not kept:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))


newer = Manager(sites(louder))


async def reaching(ctx):
    open("/dev/null").close()
    import socket
    socket.create_connection(("localhost", 9))


outside = sites(reaching)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recording, and a module of its own with versions of its controller."""
    module = f"sites_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(SITES)
    recorded(tmp_path / "sites.rec", site())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def replay(folder: Path, name: str, *more: str) -> int:
    module = next(folder.glob("sites_*.py")).stem
    return main(["replay", "sites.rec", "--controller", f"{module}:{name}", *more])


def test_the_same_code_gives_status_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(folder, "same") == 0
    assert capsys.readouterr().out == "all decide the same: 2 runs, with 1 request\n"


def test_newer_code_gives_status_1_and_the_list_of_the_page(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(folder, "newer") == 1
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert capsys.readouterr().out == shown


def test_json_has_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(folder, "newer", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["runs"], report["same"]) == (2, 1)
    (run,) = report["differing"]
    assert run["key"] == "default/web"
    assert run["differences"][1] == "  .data.text: before 'hello', now 'HELLO'"


def test_one_run_is_compared_by_its_id(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay(folder, "newer", "--json")
    (run,) = json.loads(capsys.readouterr().out)["differing"]
    assert replay(folder, "same", "--run", run["run"]) == 0
    assert capsys.readouterr().out.startswith("all decide the same: 1 run,")
    assert replay(folder, "newer", "--from", "0.4") == 0  # the run that decides otherwise came before
    assert replay(folder, "newer", "--to", "0.3") == 1
    assert replay(folder, "newer", "--from", "2025-12-31", "--to", "2026-01-01T00:00:00.3") == 1


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--run", "ffffffff"), "the recording has no run ffffffff"),
        (("--from", "soon"), "--from: 'soon' is not a time"),
        (("--from", "3", "--to", "2"), "--from is later than --to"),
        (("--from", "2100-01-01"), "no run of the recording is within --from and --to"),
        (("--from", "nan"), "--from: 'nan' is not a number of seconds"),
        (("--to", "inf"), "--to: 'inf' is not a number of seconds"),
        (("--from", "-5"), "--from: '-5' is not a number of seconds"),
        (("--scenario", "sites.rec"), "--scenario: 'sites.rec' is not the name of a module"),
        (("--scenario", "x.py", "--json"), "--scenario executes nothing that --json could report"),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], complaint: str
) -> None:
    assert replay(folder, "same", *more) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {complaint}")


def test_code_that_reaches_outside_is_refused_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(folder, "outside") == 2
    complaint = capsys.readouterr().err
    assert "the code cannot be replayed" in complaint
    assert re.search(r"sites_\w+\.py:\d+", complaint)


def test_a_file_that_is_no_recording_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "sites.rec").write_text("kind: ConfigMap\n")
    assert replay(folder, "same") == 2
    assert "sites.rec is not a recording: name the file of `record=`" in capsys.readouterr().err


BAD_FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda body: b"", "is not a recording: name the file of `record=`"),
    "cut in its header": (
        lambda body: body[:40],
        "is a recording whose first frame was cut off: copy it again",
    ),
    "cut in its first run": (
        lambda body: body[: len(body) * 2 // 3],
        "the recording has no run that has ended",
    ),
    "damaged": (lambda body: body[:-9] + b"damaged" + body[-2:], "the checksum of a frame is wrong"),
    "of another version": (
        lambda body: body.replace(b" 3 ", b" 1 ", 1),
        "has format 1, and this version reads",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_line_and_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    change, complaint = BAD_FILES[name]
    path = folder / "sites.rec"
    path.write_bytes(change(path.read_bytes()))
    assert replay(folder, "same") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line


def test_a_pipe_is_refused_and_holds_nothing_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "sites.rec").unlink()
    os.mkfifo(folder / "sites.rec")
    assert replay(folder, "same") == 2
    assert capsys.readouterr().err.startswith("error: sites.rec is not a file")


def test_a_controller_of_another_name_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "sites.rec", "--controller", "registry-secrets"]) == 2
    assert "the recording has runs of site, and none of the given controllers" in capsys.readouterr().err


def test_a_scenario_of_a_moment_can_be_played(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert replay(folder, "same", "--from", "0.3", "--scenario", "test_incident.py") == 0
    assert capsys.readouterr().out == "test_incident.py\n"
    text = (folder / "test_incident.py").read_text()
    made: dict[str, object] = {"__name__": "incident"}
    exec(compile(text, "test_incident.py", "exec"), made)
    (web,) = made["OBJECTS"]  # type: ignore[misc]
    assert (web["kind"], web["spec"]["text"]) == ("Site", "hello")  # type: ignore[index]
    made["test_the_recorded_incident"]()  # type: ignore[operator]


def test_nothing_of_a_recording_becomes_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = '"""\nraise SystemExit("run")\n\'\'\'\\'
    recorded(folder / "sites.rec", site(text=hostile))
    assert replay(folder, "same", "--from", "0.3", "--scenario", "test_hostile.py") == 0
    made: dict[str, object] = {"__name__": "hostile"}
    exec(compile((folder / "test_hostile.py").read_text(), "test_hostile.py", "exec"), made)
    (web,) = made["OBJECTS"]  # type: ignore[misc]
    assert web["spec"]["text"] == hostile  # type: ignore[index]


def test_the_report_escapes_what_would_control_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(folder / "sites.rec", site(text="\x1b[2J small"))
    assert replay(folder, "newer") == 1
    assert "\x1b" not in capsys.readouterr().out


def test_its_help_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--help"]) == 0
    said = textwrap.dedent(capsys.readouterr().out)
    assert "nothing is sent anywhere" in " ".join(said.split())
