"""Plays the zoo with all tools, or some, and writes what they took into docs/reference/bug-patterns.md."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial

from tests.verification.measurements import PAGE, STORE, FalseAlarm, measure, page_with, store, stored
from tests.verification.tools import TOOLS, plays
from tests.verification.zoo.all_bugs import BY_NAME, ZOO


def main(arguments: Sequence[str]) -> int:
    """Measure; 1 if a tool reports a twin without a bug."""
    parser = ArgumentParser("python -m tests.verification", description=__doc__)
    parser.add_argument("--tool", action="append", choices=list(TOOLS), help="only with this tool")
    parser.add_argument("--bug", action="append", choices=list(BY_NAME), help="only this bug")
    parser.add_argument("--page", action="store_true", help="write the page from the last measurements")
    options = parser.parse_args(arguments)
    measured = {name: dict(taken) for name, taken in stored().items()} if STORE.exists() else {}
    alarms = 0
    for bug in () if options.page else ZOO:
        if options.bug and bug.name not in options.bug:
            continue
        for tool in filter(partial(plays, bug), options.tool or TOOLS):
            try:
                taken = measured.setdefault(bug.name, {})[tool] = measure(bug, tool)
            except FalseAlarm as alarm:
                alarms += 1
                print(alarm, flush=True)
                continue
            print(f"{bug.name}: {tool} {'does not find it' if taken is None else f'{taken} s'}", flush=True)
        store(measured)
    if all(bug.name in measured for bug in ZOO):
        PAGE.write_text(page_with(PAGE.read_text(), measured))
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
