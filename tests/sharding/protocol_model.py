"""A model of a ring around `plan` and `step`: every order of reads and writes, deaths, joins and departures.

What is left out, and why nothing is lost by it:

- Time. A member is certain of its Lease, or it is not; certainty ends at any moment, and always before
  another member may take it for dead. So a crash, a frozen process, a suspended machine and a partition are
  all the same: the member does nothing for as long as it likes, and is then `dead`. No decision reads a
  clock, so wall clocks may jump.
- The version at which a dead member's Lease is deleted. If the Lease was renewed, it has another version and
  is not deleted; so a Lease is deleted only when its member is not certain any more.
- Who coordinates. Any member may at any time, deposed or not; all of them plan from one snapshot of the
  Leases and write by compare-and-swap. Of all plans made on one version of the assignment at most one is
  written, and the others have no effect. So one `planned` assignment is enough.
- Answers. A write that was carried out though its writer does not know is one that the writer makes again.
- How old an epoch is. Only whether it is the present one of its bucket matters, because epochs never come
  back; likewise, for a version, whether it covers all writes so far (1) or not (0). So the number of worlds
  is finite, though members come and go without end.

A name is used again when nothing refers to it any more, for what is another member to all others; whose name
comes first joins first.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from attrs import evolve, frozen

from reconcile.sharding import member_steps, planning
from reconcile.sharding.assignment import Assignment, Holding, MemberRecord, Orders
from reconcile.sharding.member_steps import Input, MemberState
from tests.sharding.protocol_values import (
    FIRST,
    LONG_PAST,
    PAST,
    PRESENT,
    Numbered,
    T,
    at_present,
    changed,
    key_of_assignment,
    key_of_record,
    key_of_state,
    key_of_view,
    older_assignment,
    older_record,
    outdated_record,
    past_record,
    resource,
)

OUT, UP, DEAD = "out", "up", "dead"
NOTHING = -1
_OLDER = {NOTHING: NOTHING, LONG_PAST: LONG_PAST, FIRST: LONG_PAST, PAST: LONG_PAST, PRESENT: PAST}
ANOTHER = "another"
AT_ONCE, LATER, IN_FLIGHT = range(3)


class Violation(AssertionError):
    """A world that must not be."""


class Process(NamedTuple):
    """A member. Its `state`, what its Lease says (`said`) and is to say (`sent`, under way) are numbers.

    `knows`: whether its caches have all that was ever written in a bucket.
    """

    life: str = OUT
    state: int = NOTHING
    knows: tuple[int, ...] = ()
    said: int = NOTHING
    sent: int = NOTHING


_Acts = tuple[tuple[tuple[str, Process], ...], tuple[tuple[str, int, int], ...]]


class World(NamedTuple):
    """`wrote`: under which epoch each bucket was last written, and by whom. `left`: faults that may come."""

    assignment: int
    planned: int
    wrote: tuple[tuple[int, str], ...]
    processes: tuple[Process, ...]
    left: tuple[int, int, int, int]


@frozen
class Shape:
    """What is explored. Members join, die and leave so often in all, or without end.

    `says`: what a member says is in its Lease at once, later, or may be under way when the member dies or
    thinks otherwise. `stale_plans`: other things happen between a plan and its write. `slow_informers`: they
    take time to follow a bucket.
    """

    members: int
    buckets: int
    moves_at_once: int = 9
    joins: int = NOTHING
    deaths: int = NOTHING
    departures: int = NOTHING
    deletions: int = 0
    says: int = IN_FLIGHT
    stale_plans: bool = True
    slow_informers: bool = False


class Model:
    """The worlds of a shape. The other arguments are for seeded faults: other modules that decide, Leases
    that are deleted at whatever version they have, members that do not wait until they have caught up.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        steps: ModuleType = member_steps,
        planner: ModuleType = planning,
        buries_the_living: bool = False,
        catches_up: bool = True,
    ) -> None:
        self.shape = shape
        self.buries_the_living = buries_the_living
        self.catches_up = catches_up
        self.steps = steps
        self.planner = planner
        self.names = "abcde"[: shape.members]
        self.assignments: Numbered[Assignment] = Numbered(key_of_assignment)
        self.records: Numbered[MemberRecord] = Numbered(key_of_record)
        self.states: Numbered[MemberState] = Numbered(key_of_state)
        self.views: Numbered[member_steps.View] = Numbered(key_of_view)
        self._memory: dict[Hashable, Any] = {}

    def first(self) -> World:
        """Without members."""
        shape = self.shape
        empty = Assignment.empty(shape.buckets, FIRST)
        left = (shape.joins, shape.deaths, shape.departures, shape.deletions)
        return World(
            self.assignments(empty),
            NOTHING,
            ((NOTHING, ""),) * shape.buckets,
            (Process(),) * shape.members,
            left,
        )

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What is computed, but only the first time."""
        if key not in self._memory:
            self._memory[key] = compute()
        return self._memory[key]  # type: ignore[return-value]

    # What happens by itself.

    def after(self, world: World) -> Iterator[tuple[str, World]]:
        """The worlds that may follow without a fault."""
        living = any(process.life == UP for process in world.processes)
        said = tuple(process.said for process in world.processes)
        for at, process in enumerate(world.processes):
            key = (at, process, NOTHING if process.life != UP else self._view(world, at, said))
            alone, holds = self._memory.get(key) or self.once(key, lambda k=key: self._acts(*k))
            for label, following in alone:
                yield label, world._replace(processes=changed(world.processes, at, following))
            for label, bucket, epoch in holds:
                yield label, self._held(world, at, bucket, epoch)
            if living and process.said != NOTHING and self._may_be_buried(process):
                unsaid = process._replace(said=NOTHING, sent=NOTHING)
                gone = Process() if process.life == DEAD else unsaid
                yield "a member is taken for dead", self._with(world, at, gone)
        if world.assignment == NOTHING:
            if living:
                yield "an assignment begins", self._begun_anew(world)
            return
        if living and (planned := self._plan(world, said)) not in (NOTHING, world.planned):
            with_plan = world._replace(planned=planned)
            if not self.shape.stale_plans:
                yield "the plan is written", self._written(with_plan)
            else:
                yield "a member plans", with_plan
        if world.planned != NOTHING:
            yield "the plan is written", self._written(world)

    def _acts(self, at: int, process: Process, view: int) -> _Acts:
        """What a member may do next: that concerns itself alone, and buckets that it may hold."""
        name, alone, holds = self.names[at], [], []
        if process.sent != NOTHING:
            alone.append((f"{name} has said it", process._replace(said=process.sent, sent=NOTHING)))
        if process.life != UP:
            return tuple(alone), ()
        state = self.states.values[process.state]
        if view != NOTHING:
            alone.append((f"{name} looks", self._stepped(process, self.views.values[view])))
        if state.followed != state.wanted:
            alone.append((f"{name} follows", self._stepped(process, self.steps.Followed(state.wanted))))
        for bucket, phase in state.phases.items():
            if isinstance(phase, self.steps.CatchingUp):
                holds.append((f"{name} holds {bucket}", bucket, phase.epoch))
            elif isinstance(phase, self.steps.Closing):
                ended = self._stepped(process, self.steps.Ended(bucket, phase.epoch))
                knows = changed(ended.knows, bucket, 1)
                alone.append((f"{name} ends {bucket}", self._saying(ended._replace(knows=knows))))
        said = self._record(process)
        if said not in (process.said, process.sent):
            sends = (
                process._replace(sent=said) if self.shape.says == IN_FLIGHT else process._replace(said=said)
            )
            alone.append((f"{name} says", sends))
        if state.leaving and state.idle:
            alone.append((f"{name} goes", Process()))
        return tuple((label, following) for label, following in alone if following != process), tuple(holds)

    def _may_be_buried(self, process: Process) -> bool:
        return process.life == DEAD or self.buries_the_living

    # Faults, and what people do.

    def faults(self, world: World) -> Iterator[tuple[str, World]]:
        """The worlds that may follow with one."""
        joins, deaths, departures, deletions = world.left
        for at, process in enumerate(world.processes):
            name = self.names[at]
            if process.life == OUT and joins and process.said == NOTHING and not self._named(world, name):
                state = self.states(MemberState(name))
                joined = Process(UP, state, (0,) * self.shape.buckets, self.records(MemberRecord()))
                yield f"{name} joins", self._with(world, at, joined, 0)
                joins = 0  # whose name comes first joins first
            if process.life == UP and deaths:
                # What it was about to say may still arrive.
                yield (
                    f"{name} dies",
                    self._with(world, at, Process(DEAD, said=process.said, sent=process.sent), 1),
                )
            if process.life == UP and departures and not self.states.values[process.state].leaving:
                leaving = self.once(
                    ("leaving", process), lambda p=process: self._stepped(p, self.steps.Leaving())
                )
                yield f"{name} is to leave", self._with(world, at, leaving, 2)
        if deletions and world.assignment != NOTHING:
            left = changed(world.left, 3, deletions - 1)
            yield "the assignment is deleted", world._replace(assignment=NOTHING, planned=NOTHING, left=left)

    def _named(self, world: World, name: str) -> bool:
        return any(
            number != NOTHING
            and any(name in (one.owner, one.next_owner) for one in self.assignments.values[number].holdings)
            for number in (world.assignment, world.planned)
        )

    # One member.

    def _stepped(self, process: Process, given: Input) -> Process:
        state, _ = self.steps.step(self.states.values[process.state], given)
        if not self.shape.slow_informers and state.followed != state.wanted:
            state, _ = self.steps.step(state, self.steps.Followed(state.wanted))
        # What it does not follow it learns nothing of.
        knows = tuple(one if bucket in state.wanted else 0 for bucket, one in enumerate(process.knows))
        return self._saying(process._replace(state=self.states(state), knows=knows))

    def _saying(self, process: Process) -> Process:
        return process._replace(said=self._record(process)) if self.shape.says == AT_ONCE else process

    def _view(self, world: World, at: int, said: tuple[int, ...]) -> int:
        """What a member sees if it looks now."""
        if world.assignment == NOTHING:
            return NOTHING
        key = (world.assignment, said, at)
        known = self._memory.get(key)
        return self.once(key, lambda: self._views(*key)) if known is None else known

    def _views(self, assignment: int, said: tuple[int, ...], at: int) -> int:
        view = self.steps.View.of(self.assignments.values[assignment], self._members(said))
        return self.views(self._concerning(view, self.names[at]))

    def _concerning(self, view: member_steps.View, name: str) -> member_steps.View:
        """What a member's step asks of a view, so that views that differ in other things are one."""
        holdings, warm, reached = [], {}, {}
        for bucket, holding in enumerate(view.assignment.holdings):
            if holding.owner == name:
                if is_warm := bool(holding.next_owner) and view.warm.get(bucket) == holding.epoch:
                    warm[bucket] = holding.epoch
                holdings.append(evolve(holding, next_owner=ANOTHER if is_warm else ""))
                if holding.clean:
                    reached[resource(bucket)] = view.assignment.reached.get(resource(bucket), 0)
            elif holding.next_owner == name:
                holdings.append(Holding(ANOTHER, holding.epoch, name))
            else:
                holdings.append(Holding())
        kept = Assignment(tuple(holdings), reached, beginning=view.assignment.beginning)
        return self.steps.View(kept, warm)

    def _held(self, world: World, at: int, bucket: int, epoch: int) -> World:
        """It has caught up, as far as it knows of, and writes."""
        process, name = world.processes[at], self.names[at]
        assignment = self.states.values[process.state].view.assignment
        # The list of an unclean bucket is consistent: it has all that was ever written.
        clean = assignment.holdings[bucket].clean
        caught_up = assignment.reached.get(resource(bucket), 0) if clean else 1
        if not (process.knows[bucket] or (self.catches_up and caught_up)) and _written(world, bucket):
            raise Violation(f"{name} holds {bucket} without what was written there before")
        before, writer = world.wrote[bucket]
        if before > epoch or (before == epoch and writer != name):
            raise Violation(f"{name} writes in {bucket} under epoch {epoch}, after {writer} under {before}")
        held = self._stepped(process, self.steps.CaughtUp(bucket, epoch))
        world = self._with(world, at, held)
        # No member has all that is written there from now on.
        outdated = tuple(
            one._replace(
                state=self._aged(self.states, one.state, bucket, self._older_state),
                knows=changed(one.knows, bucket, 0) if one.knows else (),
                said=self._aged(self.records, one.said, bucket, older_record),
                sent=self._aged(self.records, one.sent, bucket, older_record),
            )
            for one in world.processes
        )
        return world._replace(
            assignment=self._aged(self.assignments, world.assignment, bucket, older_assignment),
            planned=self._aged(self.assignments, world.planned, bucket, older_assignment),
            wrote=changed(world.wrote, bucket, (epoch, name)),
            processes=outdated,
        )

    def _record(self, process: Process) -> int:
        def compute() -> int:
            said = self.steps.record(self.states.values[process.state], MemberRecord())
            seen = {resource(bucket): process.knows[bucket] for bucket in said.released}
            return self.records(evolve(said, seen=seen))

        return self.once(("record", process.state, process.knows), compute)

    # The assignment.

    def _members(self, said: tuple[int, ...]) -> Mapping[str, MemberRecord]:
        return {
            name: self.records.values[number]
            for name, number in zip(self.names, said, strict=True)
            if number != NOTHING
        }

    def _plan(self, world: World, said: tuple[int, ...]) -> int:
        def compute() -> int:
            before = self.assignments.values[world.assignment]
            planned = self.planner.plan(before, self._members(said), Orders(), self.shape.moves_at_once)
            return NOTHING if planned == before else self.assignments(planned)

        return self.once(("plan", world.assignment, said), compute)

    def _written(self, world: World) -> World:
        before, after = (self.assignments.values[number] for number in (world.assignment, world.planned))
        world = world._replace(assignment=world.planned, planned=NOTHING)
        for bucket, (old, new) in enumerate(zip(before.holdings, after.holdings, strict=True)):
            if new.owner == old.owner and new.epoch == old.epoch:
                continue
            if new.clean and _written(world, bucket) and not after.reached.get(resource(bucket), 0):
                raise Violation(f"{bucket} is clean, though not all that was written there is known")
            if new.epoch > old.epoch:
                world = self._ages(world, bucket)
        return world

    def _ages(self, world: World, bucket: int) -> World:
        """All that has been under the present epoch of a bucket is past."""
        epoch, writer = world.wrote[bucket]
        assignment = self.once(
            ("present", world.assignment, bucket),
            lambda: self.assignments(at_present(self.assignments.values[world.assignment], bucket)),
        )
        return world._replace(
            assignment=assignment,
            wrote=changed(world.wrote, bucket, (_OLDER[epoch], writer)),
            processes=tuple(
                one._replace(
                    state=self._aged(self.states, one.state, bucket, self._past_state),
                    said=self._aged(self.records, one.said, bucket, past_record),
                    sent=self._aged(self.records, one.sent, bucket, past_record),
                )
                for one in world.processes
            ),
        )

    def _begun_anew(self, world: World) -> World:
        """Another assignment, at epochs above all before. Whoever goes by the one before is behind."""
        for bucket in range(self.shape.buckets):
            world = self._ages(world._replace(assignment=self.assignments(Assignment(()))), bucket)
        processes = tuple(
            one._replace(
                state=self._aged(self.states, one.state, NOTHING, self._outdated_state),
                said=self._aged(self.records, one.said, NOTHING, outdated_record),
                sent=self._aged(self.records, one.sent, NOTHING, outdated_record),
            )
            for one in world.processes
        )
        empty = self.assignments(Assignment.empty(self.shape.buckets, FIRST))
        return world._replace(assignment=empty, processes=processes)

    # Ageing.

    def _aged(self, numbered: Numbered[T], number: int, bucket: int, older: Callable[[T, int], T]) -> int:
        if number == NOTHING:
            return NOTHING
        return self.once(
            (older.__name__, number, bucket), lambda: numbered(older(numbered.values[number], bucket))
        )

    def _past_state(self, state: MemberState, bucket: int) -> MemberState:
        phases = {
            b: type(phase)(min(phase.epoch, PAST)) if b == bucket and hasattr(phase, "epoch") else phase
            for b, phase in state.phases.items()
        }
        assignment = state.view.assignment
        holdings = tuple(
            evolve(holding, epoch=min(holding.epoch, PAST)) if b == bucket else holding
            for b, holding in enumerate(assignment.holdings)
        )
        warm = {b: min(epoch, PAST) if b == bucket else epoch for b, epoch in state.view.warm.items()}
        view = self.steps.View(evolve(assignment, holdings=holdings), warm)
        return evolve(state, phases=phases, view=view)

    def _older_state(self, state: MemberState, bucket: int) -> MemberState:
        assignment = older_assignment(state.view.assignment, bucket)
        return evolve(state, view=self.steps.View(assignment, state.view.warm))

    def _outdated_state(self, state: MemberState, _: int) -> MemberState:
        assignment = evolve(state.view.assignment, beginning=0)
        return evolve(state, view=self.steps.View(assignment, state.view.warm))

    def _with(self, world: World, at: int, process: Process, fault: int = NOTHING) -> World:
        processes = changed(world.processes, at, process)
        if fault == NOTHING or world.left[fault] < 0:
            return world._replace(processes=processes)
        return world._replace(processes=processes, left=changed(world.left, fault, world.left[fault] - 1))

    # What must be.

    def _working(self, world: World) -> Iterator[tuple[str, frozenset[int]]]:
        for at, process in enumerate(world.processes):
            if process.life == UP:
                yield self.names[at], self.once(("working", process.state), lambda p=process: self._works(p))

    def _works(self, process: Process) -> frozenset[int]:
        working = (self.steps.Held, self.steps.Closing)
        phases = self.states.values[process.state].phases
        return frozenset(bucket for bucket, phase in phases.items() if isinstance(phase, working))

    def check(self, world: World) -> None:
        """Raises Violation where two may write."""
        taken: dict[int, str] = {}
        for name, buckets in self._working(world):
            for bucket in buckets:
                if bucket in taken:
                    raise Violation(f"{taken[bucket]} and {name} may write in {bucket}")
                taken[bucket] = name

    def settled(self, world: World) -> bool:
        """Whether each bucket is held, and each member that stays holds as many, give or take one."""
        shares = []
        for process in world.processes:
            if process.life == UP:
                phases = self.states.values[process.state].phases.values()
                if not self.states.values[process.state].leaving:
                    shares.append(sum(isinstance(phase, self.steps.Held) for phase in phases))
        return not shares or (sum(shares) == self.shape.buckets and max(shares) - min(shares) <= 1)


def _written(world: World, bucket: int) -> bool:
    return world.wrote[bucket][0] != NOTHING
