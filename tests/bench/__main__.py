"""Measure: `python -m tests.bench [--json FILE] [--only PREFIX]`.

Each module beside this one has `figures() -> dict[str, float]` and is asked in a process of its own. `--only`
takes those figures whose name begins so, and the benches that run only when they are named.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.bench._harness import Figures, measured

HERE = Path(__file__).parent
NAMED = frozenset({"million"})
"""They take gigabytes, so they run only when they are asked for by name."""


def benches() -> list[str]:
    """The modules that have figures: their names are the first word of the figures'."""
    return sorted(file.stem for file in HERE.glob("[!_]*.py"))


def wanted(bench: str, only: str) -> bool:
    """Whether a module can have a figure whose name begins with `only`."""
    named = only.startswith(f"{bench}.") or only == bench
    return named or (bench not in NAMED and f"{bench}.".startswith(only))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the figures there, as one flat object")
    parser.add_argument("--only", metavar="PREFIX", default="", help="those whose name begins so")
    chosen = parser.parse_args(arguments)
    figures: Figures = {}
    failed: list[str] = []
    for bench in benches():
        if wanted(bench, chosen.only):
            try:
                figures |= measured(f"tests.bench.{bench}", "figures")
            except subprocess.CalledProcessError:
                failed.append(bench)
    figures = {name: value for name, value in figures.items() if name.startswith(chosen.only)}
    if not figures and not failed:
        print(f"bench: no figure begins with {chosen.only!r}", file=sys.stderr)
        return 2
    width = max(map(len, figures), default=0)
    for name, value in figures.items():
        print(f"{name:{width}}  {value:>14,.2f}")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(figures, indent=2) + "\n")
    for bench in failed:
        print(f"bench: tests/bench/{bench}.py failed, see above", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
