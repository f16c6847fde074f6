"""`reconcile transitions`: what it takes, prints and returns."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from attrs import frozen

from reconcile.commands.main import main

OPERATOR = """
import socket
from attrs import frozen
from reconcile import Context, Controller, Intent, Manager, Object, ObjectMeta, resource
from reconcile.kinds import ConfigMap
from reconcile.testing import Apply, Scenario

@frozen
class NoteSpec:
    bold: bool = False

@resource("notes.example.com/v1")
class Note(Object):
    spec: NoteSpec = NoteSpec()

async def keep(ctx: Context[Note]) -> None:
    metadata = ObjectMeta(ctx.object.name, ctx.object.namespace)
    await ctx.apply(Intent(ConfigMap, metadata=metadata, data={"bold": str(ctx.object.spec.bold)}))

async def once(ctx: Context[Note]) -> None:
    if not await ctx.owned(ConfigMap):
        await keep(ctx)

async def phone(ctx: Context[Note]) -> None:
    socket.create_connection(("example.com", 80))

outside = Controller(Note, phone, name="outside")
notes = Controller(Note, keep, owns=[ConfigMap])
forgetful = Controller(Note, once, owns=[ConfigMap], name="forgetful")
told = Scenario(controllers=lambda: forgetful, steps=[Apply(Note(metadata=ObjectMeta("told", "shop")))])
"""


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"operator_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        OPERATOR.replace("notes.example.com", f"{tmp_path.name}.example.com".replace("_", "-"))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@frozen
class Outcome:
    exit_code: int
    stdout: str
    stderr: str


Run: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def run(operator: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def ask(name: str, *arguments: str) -> Outcome:
        code = main(["transitions", f"{operator}:{name}", *arguments])
        return Outcome(code, *capsys.readouterr())

    return ask


def test_a_controller_that_holds_is_reported_with_how_much_was_played(run: Run) -> None:
    result = run("notes", "--budget", "1h")
    assert (result.exit_code, result.stderr) == (0, "")
    assert " pairs of values of two fields" in result.stdout


def test_a_change_that_goes_wrong_is_printed_and_is_status_1(run: Run) -> None:
    result = run("forgetful", "--budget", "600", "--no-pairs")
    assert result.exit_code == 1
    assert (
        'as-new: configmaps default/demo: data.bold is "False"; with a new object it is "True"'
        in result.stdout
    )


def test_code_that_goes_outside_is_reported_with_what_to_do(run: Run) -> None:
    result = run("outside")
    assert result.exit_code == 2
    assert result.stderr.endswith("pass a Scenario that has stand-ins for what is outside\n")


def test_a_scenario_gives_the_object_to_vary_and_options_are_passed_on(run: Run) -> None:
    result = run("told", "--budget", "10m")
    assert result.exit_code == 1
    assert "configmaps shop/told" in result.stdout
    result = run("told", "--budget", "10m", "--one-way", "configmaps.data", "--only", "spec.bold")
    assert result.exit_code == 0, result.stderr
    assert "of 1 field," in result.stdout
    assert run("told", "--budget", "10m", "--without", "as-new", "--seed", "3").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--budget", "soon"],
            "--budget soon is not a time: expected a number above 0, with s, m or h, such as 60s",
        ),
        (["--budget", "0"], "--budget 0 is not a time"),
        (["--budget", ""], "--budget is not a time"),
        (["--skip", "spec.none"], "there is no field spec.none to skip"),
        (["--budget", "-1"], "--budget -1 is not a time"),
        (["--budget", "nan"], "--budget nan is not a time"),
        (["--only", "spec.none"], "there is no field spec.none that has two values"),
        (["--without", "none"], "unknown rules: none"),
    ],
)
def test_what_it_cannot_do_is_one_line_and_status_2(run: Run, arguments: list[str], text: str) -> None:
    result = run("notes", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("no_such_operator", "there is no module no_such_operator"),
        (":notes", ":notes is not a target"),
        ("{}:", "is not a target"),
        ("{}:none", "the module has no none"),
        ("{}:keep", "{}:keep is a function: expected a Manager"),
    ],
)
def test_a_target_that_has_no_controller_is_one_line_and_status_2(
    operator: str, capsys: pytest.CaptureFixture[str], target: str, text: str
) -> None:
    assert main(["transitions", target.format(operator)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert text.format(operator) in line
