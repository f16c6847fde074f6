"""The executables of the distribution, as pip writes them, whether it is installed or not."""

import os
import sys
import tomllib

import pytest

from tests.commands.helpers import ROOT

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with every executable of the distribution first on its PATH."""
    folder = tmp_path_factory.mktemp("bin")
    for name, target in SCRIPTS.items():
        module, _, function = target.partition(":")
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)
    return {
        "HOME": str(folder),
        "PATH": os.pathsep.join((str(folder), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),
    }
