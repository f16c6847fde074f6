"""The figures of docs/explanation/compared.md: `python -m tests.compared [requests|cost]`.

The requests take some two minutes; the cost takes ten, and longer where a program must be built first.
"""

import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.compared import cost
from tests.compared.story import CASES, OPERATORS, Operator, lines_of, outcome_of, requests_of

REST = 60.0


def _requests(operator: Operator) -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        return requests_of(operator, Path(folder), rest=REST)


def _outcome(case: str, operator: Operator) -> str:
    with tempfile.TemporaryDirectory() as folder:
        outcome = outcome_of(operator, case, Path(folder))
    return "no such write" if outcome is None else outcome or "as it should be"


def _row(*cells: object) -> None:
    print("|", " | ".join(str(cell) for cell in cells), "|")


def counted(asked: list[str]) -> str:
    """Reads and writes; a list and a watch are a read each."""
    verbs = Counter("read" if one.startswith(("GET", "WATCH")) else "write" for one in asked)
    return f"{verbs['read']} + {verbs['write']}"


def requests() -> None:
    _row("", *(operator.name for operator in OPERATORS))
    _row("---", *("---" for _ in OPERATORS))
    _row("lines of code", *(lines_of(operator) for operator in OPERATORS))
    with ThreadPoolExecutor(len(OPERATORS)) as threads:
        told = list(threads.map(_requests, OPERATORS))
        for phase in told[0]:
            _row(phase, *(counted(one[phase]) for one in told))
        for case in CASES:
            _row(case, *threads.map(partial(_outcome, case), OPERATORS))


def costs() -> None:
    # Nothing else of ours may run meanwhile, so the programs come one after another.
    names, *lines = cost.table()
    for line in (names, ["---"] * len(names), *lines):
        _row(*line)


TABLES = {"requests": requests, "cost": costs}


def main(chosen: list[str]) -> None:
    for name in chosen or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
