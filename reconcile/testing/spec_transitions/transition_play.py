"""Plays what can be made of one object, as far as there is time, and counts it."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, NoReturn

from attrs import define, field

from reconcile.testing.end_state import EndStateSubject
from reconcile.testing.spec_transitions.covering_rows import (
    CoveringRows,
    Pair,
    Row,
    number_of_pairs,
    pairs_of,
)
from reconcile.testing.spec_transitions.least_case import LeastCase, failing_chain
from reconcile.testing.spec_transitions.left_worlds import ExpectedObjects
from reconcile.testing.spec_transitions.spec_space import SlotSpecs, SpecSpace
from reconcile.testing.spec_transitions.transition_player import (
    InvalidSpec,
    PlayedChain,
    PlayedSpec,
    SpecManifest,
    TransitionPlayer,
)
from reconcile.testing.spec_transitions.transition_report import broken_transition
from reconcile.testing.spec_transitions.trial_server import TrialServer

_ROWS_OF_A_WALK: Final = 4
_REFUSALS_OF_A_WALK: Final = 20
_MOST_PAIRS: Final = 50_000
"""Pairs of values that are combined: more would take more memory and time than anyone has."""
_CHANGES_OF_A_WALK: Final = 30
_CHANGES_OF_METADATA: Final = 5
"""Fewer: they leave the generation as it is, and the storm guard counts writes for one generation."""


@define(eq=False)
class TransitionPlay:
    """What is played of one base, and how much of it was."""

    player: TransitionPlayer
    trial: TrialServer
    space: SpecSpace
    plural: str
    until: float
    """When the budget is used up, by `perf_counter`."""
    transitions: int = field(default=0, init=False)
    in_full: int = field(default=0, init=False)
    refusals_played: int = field(default=0, init=False)
    pairs: int = field(default=0, init=False)
    pairs_in_full: int = field(default=0, init=False)
    immutable: int = field(default=0, init=False)
    left: Counter[str] = field(factory=Counter, init=False)
    """How many changes of each field are still to be played."""
    uncombined: int = field(default=0, init=False)
    """Fields that are not combined with others."""

    @property
    def _over(self) -> bool:
        return perf_counter() >= self.until

    def new_objects(self) -> None:
        self._hold([self.space.base])

    def refusals(self) -> None:
        """Invalid values, one after the other; nothing may change, and then a valid one is carried out."""
        invalid = self.space.invalid
        after = self._another_spec()
        for number in range(0, len(invalid), _REFUSALS_OF_A_WALK):
            if self._over:
                return
            part = invalid[number : number + _REFUSALS_OF_A_WALK]
            self._hold([self.space.base, *part, after])
            self.refusals_played += len(part)

    def _another_spec(self) -> SpecManifest:
        fields = self.space.alone()
        return fields[0].manifests[1] if fields else self.space.base

    def neighbours(self) -> None:
        """Each field alone: all changes from one class of values to another, there and back.

        The first walk of each field comes before the second of any.
        """
        fields = self.space.alone()
        for one in fields:
            self.left[one.slot.name] = len(one.walk()) - 1
        self.in_full += self.left.total()
        walks = [(number, one, walk) for one in fields for number, walk in enumerate(pieces_of(one))]
        for _, one, walk in sorted(walks, key=lambda numbered: numbered[0]):
            if self._over:
                return
            changes = self._walk(walk)
            self.transitions += changes
            self.left[one.slot.name] -= changes

    def combinations(self) -> None:
        """Several fields at once, until each two values of two fields have met in one spec."""
        every = self.space.leaves()
        leaves = _within(every, _MOST_PAIRS)
        self.uncombined = len(every) - len(leaves)
        rows = CoveringRows([len(leaf.classes) for leaf in leaves], self._is_possible(leaves))
        batches = _batched(rows, _ROWS_OF_A_WALK)
        seen: set[Pair] = set()
        while not self._over and (batch := next(batches, None)):
            specs = [self.space.combined(leaves, row) for row in batch]
            changes = self._walk([self.space.base, *specs, self.space.base])
            self.transitions += changes
            self.in_full += changes
            for row in batch[:changes]:
                seen.update(pairs_of(row))
        self.pairs = len(seen)
        self.pairs_in_full = rows.pairs - rows.impossible

    def _is_possible(self, leaves: Sequence[SlotSpecs]) -> Callable[[Row], bool]:
        return lambda row: self.trial.admits(self.space.combined(leaves, row))

    def _walk(self, specs: Sequence[SpecManifest]) -> int:
        """How many changes were played of a walk: those for which there was time."""
        played: list[SpecManifest] = []
        for spec in specs:
            if self._over:
                break
            broken = self.player.new_object(spec).broken
            if broken is not None:
                self._break([spec], broken)
            played.append(spec)
        if len(played) > 1:
            self._hold(played)
        return max(len(played) - 1, 0)

    def _hold(self, specs: Sequence[PlayedSpec]) -> None:
        __tracebackhide__ = True
        chain = failing_chain(self.player, specs[:1])
        if chain is not None:
            self._break(specs[:1], chain)
        if len(specs) == 1:
            return
        played = self.player.play(specs)
        self.immutable += sum(1 for number in played.refused if not _is_invalid(specs, number))
        if played.wrong_at is not None:
            self._break(specs, played)

    def _break(self, specs: Sequence[PlayedSpec], chain: PlayedChain) -> NoReturn:
        __tracebackhide__ = True
        least = LeastCase(self.player, self.trial, self.space.schema, specs, chain)
        least.shrink()
        raise broken_transition(least.specs, least.chain, self.plural)

    # --- what made no difference ------------------------------------------------------------------

    def effects(self) -> Mapping[str, bool]:
        """For each field of which every value was played: whether any made a difference to anything else."""
        found: dict[str, bool] = {}
        for one in self.space.leaves():
            worlds = [self.player.known(manifest) for manifest in one.manifests]
            beside = [_beside(world, self.plural) for world in worlds if world is not None]
            if len(beside) == len(worlds):
                found[one.slot.name] = any(other != beside[0] for other in beside)
        return found


def _beside(world: ExpectedObjects, plural: str) -> Mapping[EndStateSubject, Sequence[Any]]:
    """The objects of a world, but of those that are varied only the status."""
    return {
        subject: [body.get("status") for body in bodies] if subject[0] == plural else bodies
        for subject, bodies in world.objects.items()
    }


def _is_invalid(specs: Sequence[PlayedSpec], number: int) -> bool:
    return number < len(specs) and isinstance(specs[number], InvalidSpec)


def pieces_of(field: SlotSpecs) -> Iterator[Sequence[SpecManifest]]:
    """The way through all changes of a field in pieces, each for a run of its own."""
    walk = field.walk()
    size = _CHANGES_OF_METADATA if field.slot.path[0] == "metadata" else _CHANGES_OF_A_WALK
    for first in range(0, len(walk) - 1, size):
        yield walk[first : first + size + 1]


def _within(leaves: Sequence[SlotSpecs], most: int) -> Sequence[SlotSpecs]:
    """As many of the first fields as have so many pairs of values."""
    count = len(leaves)
    while number_of_pairs([len(leaf.classes) for leaf in leaves[:count]]) > most:
        count -= 1
    return leaves[:count]


def _batched(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    source = iter(rows)
    while batch := list(itertools.islice(source, size)):
        yield batch
