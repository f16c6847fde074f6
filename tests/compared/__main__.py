"""The figures of docs/explanation/compared.md: `python -m tests.compared`, in some two minutes."""

import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

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


def main() -> None:
    _row("", *(operator.name for operator in OPERATORS))
    _row("---", *("---" for _ in OPERATORS))
    _row("lines of code", *(lines_of(operator) for operator in OPERATORS))
    with ThreadPoolExecutor(len(OPERATORS)) as threads:
        told = list(threads.map(_requests, OPERATORS))
        for phase in told[0]:
            _row(phase, *(counted(one[phase]) for one in told))
        for case in CASES:
            _row(case, *threads.map(partial(_outcome, case), OPERATORS))


if __name__ == "__main__":
    main()
