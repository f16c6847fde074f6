"""The places in a run at which faults can strike: the requests that its managers made."""

from collections import Counter
from collections.abc import Sequence

from attrs import frozen

from reconcile.testing.faults import Verb, When
from reconcile.testing.scenario_runner import ScenarioRun

_MOST_PLACES = 600


@frozen
class FaultPlace:
    """The `nth` request of this verb and path by a manager; `lines` are those that a watch may have sent."""

    process: int | None
    verb: Verb
    path: str
    nth: int
    mutating: bool = False
    late: bool = False
    """Whether it came after the last fault of the run."""
    lines: int = 0

    @property
    def when(self) -> When:
        return When(self.verb, self.path, self.nth, process=self.process)


def places_of(run: ScenarioRun) -> Sequence[FaultPlace]:
    """Each request of a run except those for Leases and Events, and each watch."""
    world = run.world
    several = len(world.processes) > 1
    changes = Counter(one.change.resource for one in world.changes)
    last = max(
        (fault.at for process in world.processes for fault in process.transport.injected), default=-1.0
    )
    found: list[FaultPlace] = []
    for process in world.processes:
        nths: Counter[tuple[str, str]] = Counter()
        for request in process.transport.requests:
            if not request.counted and world.sharding is None:
                continue
            verb, path = request.verb, request.path
            nths[verb, path] += 1
            target = request.target
            found.append(
                FaultPlace(
                    process.number if several else None,
                    verb,
                    path,
                    nths[verb, path],
                    mutating=request.mutating,
                    late=request.at > last,
                    lines=changes[target.group, target.resource] if verb == "watch" else 0,
                )
            )
    return found[-_MOST_PLACES:]
