"""What every command promises about itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconcile.commands.main import COMMANDS, main, reconcile

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command: str) -> None:
    said = CliRunner().invoke(reconcile, [command, "--help"]).output
    _, example, lines = said.partition("Example:\n")
    assert example
    assert lines.strip().startswith(f"reconcile {command}")
    for line in COMMANDS[command].example:
        assert line in lines


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_reference(command: str) -> None:
    assert f"`{command}`" in PAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_option_is_reported_in_one_line_with_the_next_step(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--nonsense"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"see reconcile {command} --help" in said


def test_help_imports_no_command_and_no_client() -> None:
    look = "import sys; from reconcile.commands import main; main(); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", look, "--help"], capture_output=True, text=True, timeout=30)
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    loaded = set(done.stderr.split())
    heavy = {"aiohttp", "kubernetes_asyncio", "reconcile.manager", "reconcile.embedded", "rich"}
    assert not loaded & heavy
