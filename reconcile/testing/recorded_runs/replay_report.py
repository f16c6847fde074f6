"""What came of a replay, as values and as text."""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from reconcile.recording.recorded_events import Ended, resource_of
from reconcile.testing.recorded_runs.replayed_world import ReplayedRun
from reconcile.testing.recorded_runs.run_differences import Difference

KEPT = 1_000
"""Runs whose differences are kept; further ones are counted."""


@frozen
class RunDifference:
    """A run that decided otherwise: its id in the log, when it began (seconds of the recording), and what.

    `masked`: it has read values that the recording masks.
    """

    run: str
    controller: str
    key: str
    at: float
    differences: Sequence[Difference]
    masked: bool


@define(eq=False)
class ReplayReport:
    """How many runs were executed again, and which of them decided otherwise.

    `cut_off` runs had not ended where the recording ends. Of `unknown_controllers` no run was executed;
    what caches received of kinds that are `not_followed` any more was left out.
    """

    runs: int = 0
    same: int = 0
    differing: list[RunDifference] = field(factory=list)
    further: int = 0
    requests: int = 0
    cut_off: int = 0
    unknown_controllers: set[str] = field(factory=set)
    not_followed: set[str] = field(factory=set)

    @property
    def identical(self) -> bool:
        """Whether runs were compared, and all of them decided the same."""
        return self.runs > 0 and self.same == self.runs

    def add(self, ended: Ended, run: ReplayedRun, differences: Sequence[Difference], masked: bool) -> None:
        """Count a run that was compared; `masked`: it has read values that the recording masks."""
        began = run.trace.began
        self.runs += 1
        self.requests += len(run.order)
        if not differences:
            self.same += 1
        elif len(self.differing) >= KEPT:
            self.further += 1
        else:
            key = "/".join(filter(None, (began.cluster, began.namespace, began.name)))
            self.differing.append(
                RunDifference(ended.reconcile_id, began.controller, key, began.at / 1e6, differences, masked)
            )

    def lines(self) -> Iterator[str]:
        """The report for people."""
        for one in self.differing:
            yield f"run {one.run or '(cancelled)'} of {one.controller} {one.key}, after {one.at:.3f} s"
            for difference in one.differences:
                yield from (f"  {line}" for line in difference.lines())
            if one.masked:
                yield "  it has read values that the recording masks: what it computes from them differs"
        if self.further:
            yield f"and {_runs(self.further)} more"
        for controller in sorted(self.unknown_controllers):
            yield f"no run of controller {controller}: it is not among those given"
        for resource in sorted(self.not_followed):
            yield f"left out, as none of the controllers given follows it: {resource_of(resource).name}"
        if self.cut_off:
            yield f"not compared, as they had not ended where the recording ends: {_runs(self.cut_off)}"
        if not self.runs:
            yield "no run was compared"
        elif self.identical:
            yield f"all decide the same: {_runs(self.runs)}, with {_count(self.requests, 'request')}"
        else:
            yield f"{self.runs - self.same} of {_runs(self.runs)} decide otherwise"

    def as_json(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "runs": self.runs,
            "same": self.same,
            "requests": self.requests,
            "cutOff": self.cut_off,
            "unknownControllers": sorted(self.unknown_controllers),
            "notFollowed": sorted(resource_of(resource).name for resource in self.not_followed),
            "differing": [
                {
                    "run": one.run,
                    "controller": one.controller,
                    "key": one.key,
                    "seconds": one.at,
                    "readMasked": one.masked,
                    "differences": [line for difference in one.differences for line in difference.lines()],
                }
                for one in self.differing
            ],
        }


def _runs(count: int) -> str:
    return _count(count, "run")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
