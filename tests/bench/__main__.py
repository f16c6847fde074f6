"""Measure: `python -m tests.bench [--json FILE] [--only PREFIX]`.

Each module beside this one that has `figures() -> dict[str, float]` is asked, in a process of its own, so
that none leaves its memory or its caches to the next. `--only` takes those figures whose name begins so.
"""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benches() -> list[str]:
    """The modules that may have figures: their names are the first word of the figures'."""
    return sorted(file.stem for file in HERE.glob("[!_]*.py"))


def measure(bench: str) -> dict[str, float]:
    """The figures of one module, taken in a new process. Raises CalledProcessError where that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--module", bench],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def figures_here(bench: str) -> dict[str, float]:
    """The figures of one module, taken in this process; none where it has none."""
    take = getattr(importlib.import_module(f"tests.bench.{bench}"), "figures", None)
    return {} if take is None else take()


def wanted(bench: str, only: str) -> bool:
    """Whether a module can have a figure whose name begins with `only`."""
    return f"{bench}.".startswith(only) or only.startswith(f"{bench}.")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the figures there, as one flat object")
    parser.add_argument("--only", metavar="PREFIX", default="", help="those whose name begins so")
    parser.add_argument("--module", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.module:
        json.dump(figures_here(chosen.module), sys.stdout)
        return 0
    figures: dict[str, float] = {}
    failed: list[str] = []
    for bench in benches():
        if wanted(bench, chosen.only):
            try:
                figures |= measure(bench)
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
