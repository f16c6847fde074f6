"""What every command promises about itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconcile.commands.main import COMMANDS, GROUPS, main, reconcile
from tests.commands.helpers import complaint

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command: str) -> None:
    said = CliRunner().invoke(reconcile, [command, "--help"]).output
    _, example, lines = said.partition("Example:\n")
    assert example
    assert lines.strip().startswith(f"reconcile {command}")
    for line in COMMANDS[command].example:
        assert line in lines


def test_help_groups_the_commands_by_when_they_are_needed() -> None:
    shown = CliRunner().invoke(reconcile, ["--help"]).output
    sections = dict(part.split(":\n", 1) for part in shown.split("\n\n") if ":\n" in part)
    groups = {title: [line.split()[0] for line in sections[title].splitlines()] for title in GROUPS}
    assert groups == {title: list(commands) for title, commands in GROUPS.items()}
    assert list(groups)[:4] == ["Develop", "Test", "Ship", "Operate"]


def test_no_command_is_in_two_groups() -> None:
    names = [name for commands in GROUPS.values() for name in commands]
    assert sorted(names) == sorted(COMMANDS)


def test_summaries_stand_in_one_column_and_fit_on_a_line() -> None:
    shown = CliRunner().invoke(reconcile, ["--help"], terminal_width=80).output.splitlines()
    summaries = [entry.summary for entry in COMMANDS.values()]
    columns = [line.index(text) for line in shown for text in summaries if line.endswith(f"  {text}")]
    assert len(columns) == len(COMMANDS)
    assert len(set(columns)) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_what_its_option_help_shows(command: str) -> None:
    asked = CliRunner().invoke(reconcile, ["help", command])
    assert asked.exit_code == 0
    assert asked.output == CliRunner().invoke(reconcile, [command, "--help"]).output


def test_help_without_a_command_lists_all_commands() -> None:
    assert CliRunner().invoke(reconcile, ["help"]).output == CliRunner().invoke(reconcile, ["--help"]).output


@pytest.mark.parametrize("words", [("hlep",), ("help", "hlep")])
def test_a_mistyped_command_is_answered_with_the_nearest_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(capsys, *words) == "error: there is no command 'hlep': did you mean help?\n"


@pytest.mark.parametrize("words", [("frobnicate",), ("help", "frobnicate"), ("",)])
def test_an_unknown_command_leads_to_the_list(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    error = f"error: there is no command {words[-1]!r}: see reconcile --help\n"
    assert complaint(capsys, *words) == error


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
