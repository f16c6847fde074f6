"""Type checkers accept a good operator, and refuse each wrong line of a bad one.

They see the project as its users do: as a wheel that is installed, next to files of their own, among
them the operators of docs/examples with their tests and the classes that `reconcile models` writes of
definitions: one of ours, and the samples where they are on this machine.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

from reconcile.models.generating import source_of
from tests.models.test_models_generating import OWN

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = Path(sys.executable).parent
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SAMPLES = sorted((ROOT.parent / "shared" / "samples").glob("*/crd-*.yaml"))
DEFINITIONS = [OWN, *(path.read_text() for path in SAMPLES)]
GENERATED = tuple(f"generated_{number}.py" for number in range(len(DEFINITIONS)))
EXAMPLES = {path.name: path for path in sorted((ROOT / "docs" / "examples").glob("*/*.py"))}
FILES = ("good.py", "good_tests.py", "bad.py", *EXAMPLES, *GENERATED)

Refused = dict[str, set[int]]
"""The lines that a checker finds wrong, by file."""


@frozen
class Operator:
    """A folder with an operator's files, and the interpreter for which our wheel is installed."""

    folder: Path
    python: Path

    def run(self, *command: str) -> str:
        """What a checker prints; it says by its exit status whether anything is wrong, and no more."""
        elsewhere = {"PYTHONPATH", "MYPYPATH"}
        environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.folder, env=environment, timeout=240
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Operator:
    folder = tmp_path_factory.mktemp("typing")
    built = ["hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")]
    subprocess.run([sys.executable, "-m", *built], cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = (folder / "wheel").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (python,) = (folder / "venv").glob("*/python")
    pip = ["pip", "--disable-pip-version-check", "--python", str(python)]
    install = ["install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, "-m", *pip, *install], check=True, timeout=60)
    (packages,) = (folder / "venv").glob("**/site-packages")
    # Our dependencies come from the environment of the tests; .pth files there, such as that of the
    # editable installation, are not followed from here.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    for name in ("good.py", "good_tests.py", "bad.py"):
        (folder / name).write_text((HERE / name).read_text())
    for name, path in EXAMPLES.items():
        (folder / name).write_text(path.read_text())
    for name, definition in zip(GENERATED, DEFINITIONS, strict=True):
        (folder / name).write_text(source_of(yaml.load(definition, Loader=LOADER)))
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "include": FILES}))
    return Operator(folder, python)


def mypy(operator: Operator) -> Refused:
    options = ("--strict", "--config-file=", "--python-executable", str(operator.python))
    said = operator.run(str(BIN / "mypy"), *options, *FILES)
    return {name: {int(n) for n in re.findall(rf"^{name}:(\d+): error", said, re.M)} for name in FILES}


def pyright(operator: Operator) -> Refused:
    said = json.loads(
        operator.run(str(BIN / "basedpyright"), "--outputjson", "--pythonpath", str(operator.python))
    )
    refused: Refused = {name: set() for name in FILES}
    for one in said["generalDiagnostics"]:
        if one["severity"] == "error":
            refused[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    return refused


def wrong_lines(checker: str) -> set[int]:
    """The lines of the bad operator that are marked `# wrong`, or `# wrong to mypy` where checkers differ."""
    lines = (HERE / "bad.py").read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if re.search(rf"# wrong(?: to {checker})?$", line)}


@pytest.mark.rule("model-intent")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_good_operator_passes_and_each_wrong_line_of_a_bad_one_is_an_error(
    checker: Callable[[Operator], Refused], operator: Operator
) -> None:
    refused = checker(operator)
    assert refused.pop("bad.py") == wrong_lines(checker.__name__)
    assert refused == {name: set() for name in FILES if name != "bad.py"}


def test_the_checkers_see_the_wheel_and_not_the_repository(operator: Operator) -> None:
    found = operator.run(str(operator.python), "-P", "-c", "import reconcile; print(reconcile.__file__)")
    assert Path(found.strip()).is_relative_to(operator.folder)
