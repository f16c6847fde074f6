"""Records what promtool says of the cases in recorded/: `python -m tests.monitoring.record`.

Each line of a file there is a case: series, rules, expressions and the answers. The tests compare the
evaluator with them, so that it is checked on machines without promtool too.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from tests.monitoring import webhook_faults
from tests.monitoring.promql.cases import Case, answers_of_promtool, written
from tests.monitoring.promql.examples import EXAMPLES
from tests.monitoring.promql.random_cases import drawn, of_rules
from tests.monitoring.promtool import PROMTOOL, groups

assert webhook_faults

FOLDER: Final = Path(__file__).parent / "recorded"
RANDOM_CASES: Final = 24
CASES_OF_RULES: Final = 3


def expressions() -> list[str]:
    """Those of all rules."""
    return [rule["expr"] for group in groups() for rule in group["rules"]]


def cases() -> Iterator[tuple[str, Case]]:
    """The cases, each with the name of its file."""
    for one in EXAMPLES:
        yield "examples", one.case
    for seed in range(RANDOM_CASES):
        yield "random", drawn(seed)
    for seed in range(CASES_OF_RULES):
        yield "rules", of_rules(Random(seed), expressions())


def main() -> int:
    if PROMTOOL is None:
        print("there is no promtool on this machine: apt-get install prometheus", file=sys.stderr)
        return 1
    files: dict[str, list[str]] = {}
    for name, case in cases():
        with tempfile.TemporaryDirectory() as folder:
            said = answers_of_promtool(Path(folder), case)
        files.setdefault(name, []).append(written(case, said))
    FOLDER.mkdir(exist_ok=True)
    for name, lines in files.items():
        (FOLDER / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        print(f"{len(lines)} cases in {FOLDER / name}.jsonl")
    done = subprocess.run((PROMTOOL, "--version"), capture_output=True, text=True, check=True)
    (FOLDER / "promtool-version.txt").write_text((done.stdout or done.stderr).splitlines()[0] + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
