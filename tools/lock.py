"""Lock what the targets of the Makefile install: `python tools/lock.py [--upgrade]`.

Writes constraints.txt: each package with its version, the hashes of its files for every platform, and the
targets that need it. Locked versions stay as they are, unless --upgrade takes the newest. uv resolves them,
in a temporary environment of its own.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
UV = "uv>=0.13,<0.14"
OLDEST = "3.11.5"
"""The oldest Python that every locked version runs on."""

DEMO = ("cli", "embedded")
TESTED = (*DEMO, "testing", "tracing", "zstd")
TARGETS: Mapping[str, tuple[str, ...]] = {
    "run": DEMO,
    "test": TESTED,
    "docs": DEMO,
    "check": TESTED,
    "bench": TESTED,
    "quality": TESTED,
}
"""The extras that each target needs. Its dependency group in pyproject.toml has the same name."""

_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(?:.*\\\n)*.*\n", re.MULTILINE)
_PIN = re.compile(r"^[^#\s]+==[^\s;]+(?: ; [^\\\n]+)?", re.MULTILINE)
_HEAD = """\
# Written by tools/lock.py: versions with the hashes of their files, and above each the targets that need it.
# tools/setup.sh installs what one target needs, and what `run` needs.
"""


@frozen
class Resolver:
    """uv, and a folder for its input."""

    uv: Path
    folder: Path

    def resolved(self, targets: tuple[str, ...], locked: str) -> Mapping[str, str]:
        """The entries of a lock for these targets, by package. Versions in `locked` stay as they are."""
        pins = self.folder / "pins.txt"
        pins.write_text("\n".join(_PIN.findall(locked)))
        options = ["--universal", "--generate-hashes", "--no-annotate", "--no-header"]
        options += ["--python-version", OLDEST, "--constraints", str(pins)]
        for extra in sorted({extra for target in targets for extra in TARGETS[target]}):
            options += ["--extra", extra]
        for target in targets:
            options += ["--group", target]
        command = [self.uv, "pip", "compile", "--quiet", *options, "pyproject.toml"]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        return {entry[1]: entry[0] for entry in _ENTRY.finditer(done.stdout)}


def locked_entries(resolver: Resolver, locked: str) -> Iterator[str]:
    """The entries of the whole lock file, each below the targets that need it."""
    everything = resolver.resolved(tuple(TARGETS), locked)
    lock = "".join(everything.values())
    needs = {target: resolver.resolved(("run", target), lock) for target in TARGETS if target != "run"}
    needs = {"run": resolver.resolved(("run",), lock), **needs}
    for package, entry in everything.items():
        # `run` comes first in every environment, so the other targets are of no interest then.
        targets = ["run"] if package in needs["run"] else [name for name in needs if package in needs[name]]
        yield f"# for: {' '.join(targets)}\n{entry}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    locked = "" if parser.parse_args().upgrade else CONSTRAINTS.read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([folder / "venv/bin/python", "-m", "pip", "install", "--quiet", UV], check=True)
        CONSTRAINTS.write_text(
            _HEAD + "".join(locked_entries(Resolver(folder / "venv/bin/uv", folder), locked))
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
