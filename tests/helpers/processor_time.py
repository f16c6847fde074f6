"""Bounds on processor time that hold on any machine.

A machine that others use may be three times slower than the one on which a bound was chosen, and changes
from minute to minute. A bound that was exceeded is stretched as a fixed piece of work shows then.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

FIXED_WORK_SECONDS = 0.008
"""What `_fixed_work` takes on the machine on which the bounds were chosen."""

MOST_SLOWDOWN = 8.0
"""Beyond this the fixed work was disturbed itself, and says nothing about a bound."""


@contextmanager
def bounded(seconds: float, what: str = "the work") -> Iterator[None]:
    """Fails if what is inside takes more processor time of this process, all its threads included."""
    before = time.process_time()
    yield
    spent = time.process_time() - before
    assert within(spent, seconds), f"{what} took {spent:.3f} s of the processor, expected at most {seconds} s"


def within(spent: float, seconds: float) -> bool:
    """Whether `spent` seconds of the processor here are at most `seconds` where the bounds were chosen."""
    return spent <= seconds or spent <= seconds * slowdown()


def slowdown() -> float:
    """How many times longer this machine takes at this moment: at least 1, at most `MOST_SLOWDOWN`."""
    best = min(_fixed_work() for _ in range(3))
    return min(max(1.0, best / FIXED_WORK_SECONDS), MOST_SLOWDOWN)


def _fixed_work() -> float:
    """Seconds for calls, small objects and text, in about the parts of a run of a controller."""
    before = time.thread_time()
    labels = [{"name": f"row-{number}", "at": {"a": str(number)}["a"]} for number in range(10_000)]
    labels.sort(key=lambda row: row["at"])
    assert len({str.upper(row["name"]) for row in labels}) == len(labels)
    return time.thread_time() - before
