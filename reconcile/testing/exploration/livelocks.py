"""Finds runs of a scenario that go round for ever, while they happen, and proves it.

A livelock is a cycle in the states of a world: every task takes its turn, objects are written, and everything
is as it was before. What came before may happen again, so it can go on without end. The state is that of
`world_state`, in which equal objects are alike. It does not have the memory of a process, nor the time that a
timer still has to run. So a cycle is believed only if

- it was gone through `TURNS` times since the last thing that users, faults or deaths of processes did;
- each run in it that wrote was woken by a change in it, not by a timer or a retry alone: what happens after a
  time, or less and less often, may end by itself;
- all that waited when it began has had its turn: runs under way, lines of watches, keys that were due later.

States that recur without a write are rest. A state in which something is new in each turn (a time that is no
RFC 3339 time, a random value, a number in a name) never recurs; it recurs if all texts that are new since the
world was first looked at count as equal. That would be a proof for code that only compares them (data
independence: Wolper, POPL 1986). As code may count, it is none: after `FRESH_TURNS` the run is ended all the
same, and told as a loop in which only such a value could make a difference. Numbers never count as equal.

A storm is often too fast to get that far: the storm guard of its manager (`reconcile.storms`) holds the key
after eight writes. Then what it says counts, with the cycle as far as it was seen.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from reconcile.controller.runner import Runner
from reconcile.runs.run_request import Cause, Request
from reconcile.testing.exploration.world_state import WorldStates, runners_of
from reconcile.testing.recorded_requests import UNCOUNTED
from reconcile.testing.run_records import HeldKey, Livelock, LoopStep, TimedChange
from reconcile.testing.runs_under_way import RunRef
from reconcile.testing.virtual_time import loop_time
from reconcile.testing.world import World

TURNS = 3
FRESH_TURNS = 30
LOOK_AFTER = 4
"""So often runs must have written one object, or deleted objects of one kind, before states are compared:
comparing costs more than most worlds change."""
BLUR_AFTER = 6
"""So often before they are also compared with all new texts taken for equal, which costs as much again."""

_RECENT = 12
"""Changes before the first comparison that states tell too: if a run under way saw the world before them, a
loop takes a turn more to find."""
_TURN = 8
"""Writes of other objects after which states are compared at the next write of any."""
_STRING = re.compile(rb'"([^"\\]*)"')
_MOST_KEYS = 10_000
_WRITES_SHOWN = 8


@frozen
class _Moment:
    """The world after a change: how many there were, and the keys that wait for a time, with that time."""

    changes: int
    at: float
    version: int
    late_until: float
    waiting: Mapping[tuple[int, str, Request], float]


@define(eq=False)
class LivelockWatch:
    """Watches one world; `changed` is to be called after each change of its server.

    `others` are controllers that work in it beside those of its processes, such as its nodes. What happens
    after `until` (s, of the loop) cannot help it any more.
    """

    world: World
    others: Callable[[], Iterable[Runner[Any]]] = tuple
    until: float = math.inf
    _step_changes: int = field(default=0, init=False)
    _moves: list[int] = field(factory=list, init=False)
    _written: Counter[object] = field(factory=Counter, init=False)
    _states: WorldStates | None = field(default=None, init=False)
    _blurred: WorldStates | None = field(default=None, init=False)
    _pace: object = field(default=None, init=False)
    _off_pace: int = field(default=_TURN, init=False)
    """Writes since the one at which states were compared."""
    _exact: dict[str, list[_Moment]] = field(factory=lambda: defaultdict(list), init=False)
    _fresh: dict[str, list[_Moment]] = field(factory=lambda: defaultdict(list), init=False)

    def changed(self) -> Livelock | None:
        """The loop in which the run can be ended since the newest change, if any."""
        last = self.world.changes[-1]
        self._step_changes += last.in_step
        self._note_moves()
        place = self._written_by_run(last)
        writes = self._written[place]
        if writes < LOOK_AFTER or not self._is_pace(place):
            return None
        if self._states is None:
            self._states = WorldStates(self.world, alike=True, since=self._recently)
        moment = self._moment()
        exact = self._exact[self._states.digest()]
        exact.append(moment)
        if self._goes_on(exact, TURNS):
            return self._livelock(exact, proven=True, fresh=False)
        if writes < BLUR_AFTER and self._blurred is None:
            return None
        if self._blurred is None:
            known = self._known_strings()
            self._blurred = WorldStates(self.world, alike=True, known=known, since=self._recently)
        fresh = self._fresh[self._blurred.digest()]
        fresh.append(moment)
        if self._goes_on(fresh, FRESH_TURNS):
            return evolve(self._livelock(fresh, proven=False, fresh=True), endless=True)
        return None

    def likeliest(self) -> Livelock | None:
        """The cycle that was gone through most often, if there is one, though nothing proves it."""
        return self._seen(TURNS)

    def storm(self) -> Livelock | None:
        """The loop of a key that a storm guard holds, if any."""
        for number, runner in self._runners():
            for storm in runner.guard.storms():
                request = storm.request
                subject = f"{runner.controller.resource.kind} {request}"
                found = self._seen(1) or self._writes_of(number, runner.name, request)
                held = HeldKey(number, runner.name, request, subject, storm.message())
                return evolve(found, held=held)
        return None

    def _seen(self, least: int) -> Livelock | None:
        """The cycle that was gone through most often, if it was at least that often."""
        for kept, fresh in ((self._exact, False), (self._fresh, True)):
            longest = max(kept.values(), key=len, default=[])
            if len(longest) > least:
                return self._livelock(longest, proven=False, fresh=fresh)
        return None

    def _note_moves(self) -> None:
        """Begin anew if something happened that is not the controllers' doing."""
        world = self.world
        moves = [len(world.acts), self._step_changes]
        for process in world.processes:
            happened = len(process.transport.applied) + len(process.deaths) + len(process.standstills)
            moves.append(happened)
        if moves != self._moves:
            self._moves = moves
            self._written.clear()
            self._exact.clear()
            self._fresh.clear()
            self._states = self._blurred = None
            self._pace, self._off_pace = None, _TURN

    @property
    def _recently(self) -> int:
        """The index of a change that runs under way have seen already, as a rule."""
        return max(0, len(self.world.changes) - _RECENT)

    def _written_by_run(self, timed: TimedChange) -> object:
        """Count and return the object that a run has written, or the kind of which it has deleted one."""
        change = timed.change
        if timed.by is None or change.resource in UNCOUNTED:
            return None
        place = change.resource if change.new is None else (change.resource, change.key)
        self._written[place] += 1
        return place

    def _is_pace(self, place: object) -> bool:
        """Whether to compare at this write: once in a turn is enough, where the same object is written.

        Others are compared where that one was not written for some time: it is not in the loop.
        """
        self._off_pace += 1
        if place != self._pace and self._off_pace <= _TURN:
            return False
        self._pace, self._off_pace = place, 0
        return True

    def _known_strings(self) -> frozenset[bytes]:
        """All strings in objects that changed so far, and the names of those that did not."""
        log, known = self.world.server.log, set[bytes]()
        for resource in log.resources():
            known.update(stored.key.name.encode() for stored in log.snapshot(resource))
        for timed in self.world.changes:
            if timed.change.new is not None:
                known.add(timed.change.key.name.encode())
                known.update(_STRING.findall(timed.change.new.body))
        return frozenset(known)

    def _moment(self) -> _Moment:
        now = loop_time()
        waiting = {
            (number, runner.name, item.key): now + delay
            for number, runner in self._runners()
            for item, delay in runner.queue.queued(_MOST_KEYS)
            if delay > 0
        }
        late = (
            *(process.transport.late_until for process in self.world.processes),
            *(service.late_until for service in self.world.services),
        )
        version = self.world.server.log.version
        return _Moment(len(self.world.changes), now, version, max(late, default=0.0), waiting)

    def _runners(self) -> Iterator[tuple[int, Runner[Any]]]:
        for process in self.world.processes:
            for runner in runners_of(process.manager):
                yield process.number, runner
        for runner in self.others():
            yield 0, runner

    # --- whether it goes on -----------------------------------------------------------------------

    def _goes_on(self, moments: Sequence[_Moment], turns: int) -> bool:
        return len(moments) > turns and self._is_fair(moments[0], moments[-1]) and self._is_closed(moments)

    def _is_fair(self, first: _Moment, now: _Moment) -> bool:
        """Whether all that waited at `first` has had its turn."""
        assert self._states is not None
        processes = self.world.processes
        if any(run.began < first.at for process in processes for run in process.under_way.values()):
            return False
        if self._states.oldest_line() <= first.version or first.late_until > now.at:
            return False
        late = {name for name, due in first.waiting.items() if now.at < due < self.until}
        if late:
            late -= {
                (run.process, run.controller, run.request)
                for run in self.world.runs
                if run.started >= first.at
            }
        return not late

    def _is_closed(self, moments: Sequence[_Moment]) -> bool:
        """Whether the runs that wrote in the last turn were woken by changes since the cycle began."""
        within = {timed.change.version for timed in self.world.changes[moments[0].changes - 1 :]}
        writers = {timed.by for timed in self._turn(moments) if timed.by is not None}
        causes = self._causes()
        return all(any(cause.version in within for cause in causes.get(writer, ())) for writer in writers)

    def _causes(self) -> Mapping[RunRef, Sequence[Cause]]:
        ended = {run.ref: run.woken_by for run in self.world.runs if run.ref is not None}
        active = {
            run.ref: run.causes for process in self.world.processes for run in process.under_way.values()
        }
        return {**ended, **active}

    # --- what is told of it -----------------------------------------------------------------------

    def _turn(self, moments: Sequence[_Moment]) -> Sequence[TimedChange]:
        """The changes of the last turn, without Leases and Events."""
        turn = self.world.changes[moments[-2].changes : moments[-1].changes]
        return [timed for timed in turn if timed.change.resource not in UNCOUNTED]

    def _writes_of(self, process: int, controller: str, request: Request) -> Livelock:
        """The last writes of a key, where no state came back."""
        writes = [
            timed
            for timed in self.world.changes
            if timed.by is not None
            and (timed.by.process, timed.by.controller, timed.by.request) == (process, controller, request)
        ][-_WRITES_SHOWN:]
        now = loop_time()
        began = writes[0].at if writes else now
        return Livelock(began, began, now, 0, self._steps(writes), proven=False)

    def _livelock(self, moments: Sequence[_Moment], *, proven: bool, fresh: bool) -> Livelock:
        return Livelock(
            began=moments[0].at,
            turn_began=moments[-2].at,
            ended=moments[-1].at,
            turns=len(moments) - 1,
            steps=self._steps(self._turn(moments)),
            proven=proven,
            fresh=fresh,
        )

    def _steps(self, changes: Sequence[TimedChange]) -> Sequence[LoopStep]:
        causes = self._causes()
        writers = {timed.change.version: timed.by for timed in self.world.changes}
        return [
            LoopStep(timed, _waker(causes.get(timed.by, ()), writers) if timed.by is not None else None)
            for timed in changes
        ]


def _waker(
    causes: Sequence[Cause], writers: Mapping[int, RunRef | None]
) -> tuple[Cause, RunRef | None] | None:
    """The newest change that woke a run, and the run that made it; else its newest cause."""
    for cause in reversed(causes):
        if cause.version in writers:
            return cause, writers[cause.version]
    return (causes[-1], None) if causes else None
