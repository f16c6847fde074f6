"""The plans that are kept, above all those that reached something that none before them had."""

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from reconcile.testing.faults import FaultPlan
from reconcile.testing.guidance.mutation import Parent
from reconcile.testing.guidance.situations import Situation
from reconcile.testing.seeded_random import SeededRandom

MOST_KEPT = 500
_CANDIDATES = 3
_OF_ALL = 0.5
"""The part of the changed plans whose parents are chosen among all, whatever those reached."""


@frozen
class Reached:
    """The situations of one run, as hashes, and whether one of them is new."""

    situations: frozenset[int]
    is_new: bool


@define(eq=False)
class KeptPlan:
    """A plan with what its run reached, and how often it was changed into another."""

    parent: Parent
    reached: frozenset[int]
    is_new: bool
    """Whether it reached something that none before it had."""
    chosen: int = 0


@define(eq=False)
class Corpus:
    """Learns from runs, and chooses which of the kept plans is changed next."""

    kept: list[KeptPlan] = field(factory=list)
    _seen: set[int] = field(factory=set)

    @property
    def situations(self) -> int:
        """How many situations the runs have reached so far."""
        return len(self._seen)

    @property
    def parents(self) -> Sequence[Parent]:
        """The kept plans, the oldest first."""
        return [kept.parent for kept in self.kept]

    def learn(self, situations: Iterable[Situation]) -> Reached:
        """Take in what a run reached."""
        reached = frozenset(map(hash, situations))  # the situations of a long search would fill the memory
        before = len(self._seen)
        self._seen |= reached
        return Reached(reached, len(self._seen) > before)

    def keep(self, parent: Parent, reached: Reached) -> None:
        """Keep a plan; if there are too many, forget the oldest that reached nothing new, or the worst."""
        self.kept.append(KeptPlan(parent, reached.situations, reached.is_new))
        if len(self.kept) > MOST_KEPT:
            of_no_use = next((kept for kept in self.kept if not kept.is_new), None)
            self.kept.remove(of_no_use or min(self.kept, key=_worth))

    def choose(self, chance: SeededRandom) -> Parent:
        """The plan to change next.

        Half of the time any of them, so that faults pile up. Otherwise, of three at random that reached
        something new, a short one that was seldom chosen.
        """
        new = [kept for kept in self.kept if kept.is_new]
        if not new or chance.random() < _OF_ALL:
            return chance.one_of(self.kept).parent
        best = max([chance.one_of(new) for _ in range(_CANDIDATES)], key=_worth)
        best.chosen += 1
        return best.parent

    def least(self) -> Sequence[FaultPlan]:
        """Few of the kept plans that together reach all that all of them do."""
        return fewest([(kept.parent.plan, kept.reached) for kept in self.kept])


def _worth(kept: KeptPlan) -> float:
    """A short plan takes less time, and its children show faults that none before them hides."""
    return 1.0 / ((1 + kept.chosen) * (1 + size_of(kept.parent.plan)))


def fewest(plans: Sequence[tuple[FaultPlan, frozenset[int]]]) -> Sequence[FaultPlan]:
    """Few of the plans that together reach all that all of them do: rather the shorter ones."""
    ordered = sorted(plans, key=lambda one: (size_of(one[0]), -len(one[1])))
    chosen: list[tuple[FaultPlan, frozenset[int]]] = []
    found: Counter[int] = Counter()
    for plan, reached in ordered:
        if not reached <= found.keys():
            chosen.append((plan, reached))
            found.update(reached)
    for plan, reached in reversed(tuple(chosen)):
        if all(found[number] > 1 for number in reached):
            chosen.remove((plan, reached))
            found.subtract(reached)
    return [plan for plan, _ in chosen]


def size_of(plan: FaultPlan) -> int:
    """How many things happen in it."""
    return len(plan.faults) + len(plan.acts or ())
