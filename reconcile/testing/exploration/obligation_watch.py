"""Follows in one run what was opened and met of the obligations of a scenario."""

from collections.abc import Sequence

from attrs import define, field, frozen

from informers import Key
from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.models import kind_of
from reconcile.testing.exploration.obligations import (
    Body,
    ObjectObligation,
    Obligation,
    WorldObligation,
    conditions_in_words,
    is_terminating,
)
from reconcile.testing.run_records import TimedAct
from reconcile.testing.virtual_time import loop_time
from reconcile.testing.world import World


@frozen
class _Open:
    """What is owed since a moment, and what opened it."""

    since: float
    why: str


_Owed = tuple[int, Key | None]
"""The number of an obligation, and the object that owes it; None for the world."""


@define(eq=False)
class ObligationWatch:
    """Follows the obligations of one world: `begin` once, `changed` after each change, `judge` at rest."""

    world: World
    obligations: Sequence[Obligation]
    _open: dict[_Owed, _Open] = field(factory=dict, init=False)
    _held: dict[int, bool] = field(factory=dict, init=False)

    def begin(self) -> None:
        """Open what the objects that exist already owe."""
        for number, one in enumerate(self.obligations):
            if isinstance(one, WorldObligation):
                self._look_at_world(number, one)
                continue
            for stored in self.world.server.log.snapshot(_resource(one)):
                body = self._body(one, stored)
                if body is not None:
                    self._look(number, one, stored.key, None, body)

    def changed(self, change: StoredChange) -> None:
        """Open and meet what a change of the server opens and meets."""
        for number, one in enumerate(self.obligations):
            if isinstance(one, WorldObligation):
                self._look_at_world(number, one)
            elif change.resource == _resource(one):
                states = self._body(one, change.old), self._body(one, change.new)
                self._look(number, one, change.key, *states)

    def judge(self) -> None:
        """Record as violated what is still open: the world is at rest, or in a loop."""
        for (number, key), opened in list(self._open.items()):
            one = self.obligations[number]
            state = ""
            if isinstance(one, ObjectObligation) and key is not None:
                body = self._body(one, self.world.server.log.get(_resource(one), key))
                state = "; it is gone" if body is None else f"; {conditions_in_words(body)}"
            self._violate(one, key, opened, f"left open since {opened.since:.3f} s, when {opened.why}{state}")
            del self._open[number, key]

    # --- objects ----------------------------------------------------------------------------------

    def _look(self, number: int, one: ObjectObligation, key: Key, old: Body | None, new: Body | None) -> None:
        owed = number, key
        if one.trigger is None:
            if new is not None and not one.outcome.holds(new):
                at = loop_time()
                text = f"does not hold at {at:.3f} s; {conditions_in_words(new)}"
                self._violate(one, key, _Open(at, ""), text)
            return
        if new is not None and one.trigger.opens(old, new):
            self._open[owed] = _Open(loop_time(), _opening(old, new))
        opened = self._open.get(owed)
        if opened is None:
            return
        if one.outcome.holds(new):
            self._meet(one, owed, opened)
        elif new is None or (is_terminating(new) and not one.outcome.outlives):
            del self._open[owed]  # nothing is owed any more

    def _body(self, one: ObjectObligation, stored: Stored | None) -> Body | None:
        return None if stored is None else self.world.body_of(one.kind, stored)

    # --- the world --------------------------------------------------------------------------------

    def _look_at_world(self, number: int, one: WorldObligation) -> None:
        owed = number, None
        if one.trigger is None:
            if not one.outcome(self.world):
                self._violate(one, None, _Open(loop_time(), ""), f"does not hold at {loop_time():.3f} s")
            return
        held, self._held[number] = self._held.get(number, False), bool(one.trigger(self.world))
        if self._held[number] and not held:
            self._open[owed] = _Open(loop_time(), "it was opened")
        opened = self._open.get(owed)
        if opened is not None and one.outcome(self.world):
            self._meet(one, owed, opened)

    # --- what is wrong ----------------------------------------------------------------------------

    def _meet(self, one: Obligation, owed: _Owed, opened: _Open) -> None:
        del self._open[owed]
        took = loop_time() - opened.since
        if one.within is not None and took > one.within:
            text = f"met only {took:.3f} s after {opened.since:.3f} s, when {opened.why}"
            self._violate(one, owed[1], opened, f"{text}; {one.within:g} s are allowed")

    def _violate(self, one: Obligation, key: Key | None, opened: _Open, text: str) -> None:
        subject = "the world"
        if isinstance(one, ObjectObligation):
            subject = f"{kind_of(one.kind).resource.plural} {key}"
        before = len(self.world.violations)
        self.world.violate(one.name, f"{subject}: {text}")
        if len(self.world.violations) > before and opened.why:
            self.world.openings.append(TimedAct(opened.since, f"{one.name}: {subject} owes it from here on"))


def _resource(one: ObjectObligation) -> StorageKey:
    resource = kind_of(one.kind).resource
    return resource.group, resource.plural


def _opening(old: Body | None, new: Body) -> str:
    generation = new["metadata"].get("generation")
    numbered = "" if generation is None else f" (generation {generation})"
    return f"it {'was created' if old is None else 'changed'}{numbered}"
