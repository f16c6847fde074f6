"""What the image of a new operator installs, locked by hash, and the bill of materials of that.

Both are made by tools of the field, whose commands the Makefile of the operator has too.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from reconcile.commands.problems import Problem

LOCK: Final = "requirements.lock"
SBOM: Final = "sbom.cdx.json"
SBOM_COMMAND: Final = (
    "cyclonedx-py",
    "requirements",
    LOCK,
    "--pyproject=pyproject.toml",
    "--spec-version=1.6",
    "--output-reproducible",
    f"--output-file={SBOM}",
)


def lock_command(wheels: str) -> Sequence[str]:
    """For every platform, so that an image for another one installs by hash too."""
    options = ("--quiet", "--universal", "--generate-hashes", "--no-header", "--no-annotate")
    found = (wheels,) if wheels else ()
    return ("uv", "pip", "compile", *options, *found, "pyproject.toml", f"--output-file={LOCK}")


def write_lock(folder: Path, wheels: str) -> None:
    """Lock, and list what is locked; `wheels` is the option of where to look besides the index.

    Raises Problem; the folder is complete but for these two files then.
    """
    for command, file in ((lock_command(wheels), LOCK), (SBOM_COMMAND, SBOM)):
        _run(folder, command, file)
        click.echo(folder / file)


def _run(folder: Path, command: Sequence[str], file: str) -> None:
    later = f"then run `make lock` in {folder}, where all other files are"
    beside = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    program = shutil.which(command[0], path=beside)
    if program is None:
        raise Problem(
            f"{file} is not written: {command[0]} is not installed", f"pip install uv cyclonedx-bom, {later}"
        )
    done = subprocess.run([program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / file).is_file():
        said = done.stderr.strip().splitlines()
        reason = said[0] if said else f"status {done.returncode}"
        raise Problem(f"{file} is not written: {command[0]} says {reason!r}", later)
