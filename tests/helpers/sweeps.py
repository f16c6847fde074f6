"""How much of a sweep a test plays: a part in the suite, all of it in `make sweep`."""

import os


def sweep_runs(part: int) -> int | None:
    """`part`, or SWEEP_RUNS; None for all runs, which is what 0 stands for."""
    return int(os.environ.get("SWEEP_RUNS", part)) or None
