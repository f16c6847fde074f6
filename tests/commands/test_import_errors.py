"""What goes wrong while an author's module is imported is told with the author's line."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from reconcile.commands.main import main

_NUMBERS = itertools.count()
MODELS = "from attrs import frozen\nfrom reconcile import Object, field, resource\n\n@frozen\nclass Spec:\n"
KIND = '\n@resource("example.com/v1")\nclass Site(Object):\n    spec: Spec\n'

CASES = {
    "refused by resource": (f"{MODELS}    size: list[int]\n{KIND}", "objects are immutable", 8),
    "refused by field": (f"{MODELS}    size: int = field(minimum=1)\n{KIND}", "belongs to the type", 6),
    "in the standard library": ('import json\n\njson.loads("{")\n', "JSONDecodeError", 3),
    "in an installed package": ("import attrs\n\nattrs.fields(3)\n", "TypeError", 3),
    "a name that is not there": (
        "import json\nfrom reconcile.kinds import Foo\n",
        "cannot import name 'Foo'",
        2,
    ),
    "a module that is not there": ("import json\n\nimport no_such_thing\n", "no_such_thing", 3),
    "a controller of the wrong kind": (
        "from reconcile import Controller\nfrom reconcile.kinds import Pod\n\n\nController(Pod, None)\n",
        "TypeError",
        5,
    ),
    "a call that fails": ("def make():\n    return 1 / 0\n\n\nmake()\n", "ZeroDivisionError", 2),
    "an exit": ("import sys\n\nsys.exit('no')\n", "SystemExit: no", 3),
}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> Path:
        file = tmp_path / f"faulty_{next(_NUMBERS)}.py"
        file.write_text(text)
        return file

    return write


@pytest.mark.parametrize("command", ["check", "run", "manifests"])
@pytest.mark.parametrize("case", CASES)
def test_an_import_that_fails_names_the_authors_line(
    case: str, command: str, written: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text, said, line = CASES[case]
    file = written(text)
    target = f"{file.stem}:manager" if command == "run" else file.stem
    assert main([command, target]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.rstrip().endswith(f"({file}, line {line})")
    assert told.count("\n") == 1


def test_a_line_of_a_module_that_the_named_one_imports_is_named(
    written: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    inner = written("x = 1\n\nraise ValueError('here')\n")
    assert main(["check", written(f"import {inner.stem}\n").stem]) == 2
    assert f"ValueError: here ({inner}, line 3)" in capsys.readouterr().err


def test_a_syntax_error_names_its_file_and_line(
    written: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = written("x = 1\ny = (\n")
    assert main(["check", file.stem]) == 2
    assert f"({file.name}, line 2)" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "crds"])
def test_a_kind_without_a_definition_is_named_with_its_line(
    command: str, written: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(f"{MODELS}    size: 'Nope'\n{KIND}")
    assert main([command, file.stem]) == 2
    told = capsys.readouterr().err
    assert f"has a class without a definition: name 'Nope' is not defined ({file}, line 8)" in told
