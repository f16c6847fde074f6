"""Lock what `make setup` and `make coverage` install: `python tools/lock.py [--upgrade]`.

Writes constraints.txt, and for what the extra `quality` needs on top tools/quality.txt: versions, and the
hashes of the files of every platform, from the package index. Versions that are locked stay as they are,
unless all are to be taken anew. uv resolves them, in an environment of its own that is removed again.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = "uv>=0.13,<0.14"
EXTRAS = ("cli", "embedded", "testing", "tracing", "zstd", "dev")
BUILD = ("pip", "hatchling", "editables")
OLDEST = "3.11.5"
"""The oldest Python that every locked version runs on."""
PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(?:.*\\\n)*.*\n", re.MULTILINE)
HEAD = "# Written by tools/lock.py: the versions of {what}, with their hashes.\n"


def compiled(uv: Path, folder: Path, extras: tuple[str, ...], locked: str) -> str:
    """The lock of these extras, in which `locked` versions stay."""
    (folder / "build.in").write_text("\n".join(BUILD))
    pins = re.findall(r"^[^#\s]+==[^\s;]+(?: ; [^\\\n]+)?", locked, re.MULTILINE)
    (folder / "locked.txt").write_text("\n".join(pins))
    arguments = [
        "--universal",
        "--python-version",
        OLDEST,
        "--generate-hashes",
        "--no-annotate",
        "--no-header",
    ]
    for extra in extras:
        arguments += ["--extra", extra]
    sources = [str(folder / "build.in"), "pyproject.toml", "--constraints", str(folder / "locked.txt")]
    done = subprocess.run(
        [uv, "pip", "compile", "--quiet", *arguments, *sources],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def by_name(lock: str) -> dict[str, str]:
    """The entries of a lock, by the names of the packages."""
    return {found[1]: found[0] for found in PINNED.finditer(lock)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="take all versions anew")
    upgrade = parser.parse_args().upgrade
    constraints, quality = ROOT / "constraints.txt", ROOT / "tools/quality.txt"
    kept = [file.read_text() for file in (constraints, quality) if file.exists() and not upgrade]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([folder / "venv/bin/python", "-m", "pip", "install", "--quiet", UV], check=True)
        uv = folder / "venv/bin/uv"
        lock = compiled(uv, folder, EXTRAS, "".join(kept))
        more = by_name(compiled(uv, folder, (*EXTRAS, "quality"), lock + "".join(kept)))
    constraints.write_text(HEAD.format(what="all that `make setup` installs") + lock)
    entries = [entry for package, entry in more.items() if package not in by_name(lock)]
    what = "what `make coverage` and `make mutants` need on top"
    quality.write_text(HEAD.format(what=what) + "".join(entries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
