"""What a run reached: what its managers did, after which faults, in which world."""

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from reconcile.testing.guidance.covered_lines import Line
from reconcile.testing.guidance.world_outline import OutlinedWorld, WorldOutline
from reconcile.testing.recorded_requests import RecordedRequest, service_of
from reconcile.testing.scenario_runner import ScenarioRun
from reconcile.testing.world import World

Situation: TypeAlias = Hashable
"""A line, a request or the end of a run; with the last faults before it, and the outline of the world."""

_REMEMBERED = 2
"""How many of the faults before a situation belong to it."""


def situations_of(run: ScenarioRun, lines: Iterable[Line]) -> set[Situation]:
    """Everything that a run reached."""
    world = run.world
    history = _History.of(world)
    found: set[Situation] = set()
    for file, line, at in lines:
        found.add((file, line, history.at(at, 1)))
    for process in world.processes:
        for request in process.transport.requests:
            if request.counted and request.verb != "watch":
                answers = _answer(request.status), _answer(request.server_status)
                found.add((_what(request), answers, history.at(request.at)))
    for one in world.runs:
        kind_of_error = one.message.partition(":")[0] if one.outcome == "error" else ""
        found.add((one.controller, one.outcome, kind_of_error[:80], history.at(one.ended)))
    return found


def _what(request: RecordedRequest) -> Situation:
    if request.outside:
        return request.verb, service_of(request.path)
    target = request.target
    return request.verb, target.group, target.resource, target.subresource


def _answer(status: int | None) -> int:
    return 0 if status is None else status


@frozen
class _History:
    """The outlines of a world and its troubles, each with the time from which on it holds."""

    changed: Sequence[float]
    outlines: Sequence[WorldOutline]
    troubled: Sequence[float]
    troubles: Sequence[str]

    @classmethod
    def of(cls, world: World) -> "_History":
        changed, outlines = [-1.0], [WorldOutline()]
        outlined = OutlinedWorld()
        for one in world.changes:
            if outlined.follow(one.change):
                outline = outlined.outline()
                if changed[-1] == one.at:
                    outlines[-1] = outline
                else:
                    changed.append(one.at)
                    outlines.append(outline)
        troubles = sorted(_troubles(world))
        return cls(changed, outlines, [at for at, _ in troubles], [what for _, what in troubles])

    def at(self, time: float, remembered: int = _REMEMBERED) -> tuple[WorldOutline, Sequence[str]]:
        """The world just before that time, and the last troubles by then."""
        outline = self.outlines[bisect_right(self.changed, time) - 1]
        until = bisect_right(self.troubled, time)
        return outline, tuple(self.troubles[max(0, until - remembered) : until])


def _troubles(world: World) -> Iterator[tuple[float, str]]:
    for process in world.processes:
        for fault in process.transport.injected:
            yield fault.at, type(fault.what).__name__
        for death in process.deaths:
            if death.why == "killed":
                yield death.at, "Kill"
        for standstill in process.standstills:
            yield standstill.began, "Freeze"
