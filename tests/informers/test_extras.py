"""A library of an extra that is not installed is named with the extra, and with what installs it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from informers.extras import EXTRAS, PYTHON

ROOT = Path(__file__).parents[2]


def test_every_library_of_an_extra_is_known_by_the_package_that_is_imported() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {
        (re.split(r"[^\w.-]", line)[0], extra)
        for extra, lines in declared.items()
        for line in lines
        if (extra, line.startswith("cryptography")) != ("webhooks", True)
    }
    homes = packages_distributions()
    known = {(home, extra) for package, extra in EXTRAS.items() for home in homes[package]}
    assert needed <= known


@pytest.mark.parametrize(
    ("library", "program", "extra"),
    [
        ("click", "import reconcile.commands", "cli"),
        ("hypothesis", "from reconcile.testing.strategies import objects", "testing"),
    ],
)
def test_an_import_that_needs_an_extra_says_how_to_install_it(library: str, program: str, extra: str) -> None:
    missing = f"import sys; sys.modules[{library!r}] = None\n{program}"
    done = subprocess.run((sys.executable, "-c", missing), capture_output=True, text=True, check=False)
    *_, last = done.stderr.splitlines()
    expected = f"{library} is not installed for {PYTHON}: pip install 'reconcile-runtime[{extra}]'"
    assert last == f"ModuleNotFoundError: {expected}"


def test_a_command_that_needs_another_extra_says_so_without_a_traceback() -> None:
    program = (
        "import sys; sys.modules['trustme'] = None; from reconcile.commands import main; sys.exit(main())"
    )
    command = (sys.executable, "-c", program, "apiserver")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"trustme is not installed for {PYTHON}" in done.stderr
    assert "pip install 'reconcile-runtime[embedded]'" in done.stderr
    assert "Traceback" not in done.stderr
