"""`reconcile adopt`: its steps, and what they print."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconcile.commands.adopt_command import STEPS
from reconcile.commands.main import main, reconcile
from tests.commands.helpers import complaint

ROOT = Path(__file__).parents[2]
SITES = str(ROOT / "tests" / "adoption" / "kopf_sites.py")
READ = ("adopt", "kopf", "read")


def test_help_lists_the_steps_in_the_order_in_which_they_are_done() -> None:
    shown = CliRunner().invoke(reconcile, ["adopt", "kopf", "--help"]).output
    places = [shown.index(f"\n  {name} ") for name in STEPS]
    assert places == sorted(places)


@pytest.mark.parametrize("step", STEPS)
def test_every_step_shows_an_example(step: str) -> None:
    shown = CliRunner().invoke(reconcile, ["adopt", "kopf", step, "--help"]).output
    assert all(line in shown.partition("Example:\n")[2] for line in STEPS[step].example)


def test_read_prints_what_each_handler_becomes_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reconcile", *READ, SITES]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "@kopf.on.create(backoff=10, param=dict) -> a part of the reconciler" in done.stdout
    assert "persistence.finalizer = 'example.com/sites'" in done.stdout


def test_read_prints_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*READ, SITES, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (delete,) = [one for one in found["handlers"] if one["decorator"] == "kopf.on.delete"]
    assert delete["function"] == "forget"
    assert delete["arguments"] == {"optional": "True"}
    assert delete["guide"] == "docs/reference/kopf-names.md#decorator-kopf-on-delete"


def test_a_module_is_read_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sites_on_kopf_by_name.py").write_text(Path(SITES).read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main([*READ, "-m", "sites_on_kopf_by_name"]) == 0
    assert "  keep   sites_on_kopf_by_name.py:" in capsys.readouterr().out


def test_what_cannot_be_read_is_one_line_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = "error: no file and no module was named: name them as for kopf run: operator.py, or -m MODULE\n"
    assert complaint(capsys, *READ) == none
    assert complaint(capsys, *READ, "nowhere.py").startswith("error: there is no file nowhere.py: ")
    empty = tmp_path / "empty.py"
    empty.write_text("")
    assert "registers no handlers: name the modules" in complaint(capsys, *READ, str(empty))
