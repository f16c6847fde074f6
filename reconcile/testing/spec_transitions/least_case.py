"""Makes a failing case small: as few changes of a spec as still fail, of objects with as few fields."""

from collections.abc import Sequence
from time import process_time
from typing import Final

from attrs import define, field

from reconcile.testing.spec_transitions.sample_values import JsonSchema
from reconcile.testing.spec_transitions.spec_slots import SpecSlot, slots_of, value_at, with_value
from reconcile.testing.spec_transitions.transition_player import (
    InvalidSpec,
    PlayedChain,
    PlayedSpec,
    SpecManifest,
    TransitionPlayer,
)
from reconcile.testing.spec_transitions.trial_server import TrialServer
from reconcile.testing.spec_transitions.value_classes import ABSENT, identity_of

SECONDS: Final = 20.0
"""Of the processor, in which a case is made smaller."""


@define(eq=False)
class LeastCase:
    """Looks for the least specs that break one of the same rules; `specs` and `chain` are the best so far."""

    player: TransitionPlayer
    trial: TrialServer
    schema: JsonSchema
    specs: Sequence[PlayedSpec]
    chain: PlayedChain
    _until: float = field(init=False)
    _rules: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._until = process_time() + SECONDS
        self._rules = self.chain.rules

    def shrink(self) -> None:
        self._cut_the_end()
        self._skip_the_beginning()
        self._leave_out_specs()
        self._leave_out_fields()
        self._keep_fields_as_they_were()

    def _cut_the_end(self) -> None:
        wrong_at = self.chain.wrong_at
        if wrong_at is not None and wrong_at + 1 < len(self.specs):
            self._try(self.specs[: wrong_at + 1])

    def _skip_the_beginning(self) -> None:
        for length in (1, 2, 3):
            if length < len(self.specs) and self._try(self.specs[-length:]):
                return

    def _leave_out_specs(self) -> None:
        number = 0
        while number < len(self.specs) - 1:
            if not self._try([*self.specs[:number], *self.specs[number + 1 :]]):
                number += 1

    def _leave_out_fields(self) -> None:
        for slot in self._slots():
            if any(value_at(_manifest(one), slot.path) is not ABSENT for one in self.specs):
                self._try([self._with(one, slot, ABSENT) for one in self.specs])

    def _keep_fields_as_they_were(self) -> None:
        """Where specs differ in several fields, have them differ in fewer."""
        for slot in reversed(self._slots()):
            values = [value_at(_manifest(one), slot.path) for one in self.specs]
            if len({identity_of(value) for value in values}) > 1:
                self._try([self._with(one, slot, values[0]) for one in self.specs])

    def _slots(self) -> Sequence[SpecSlot]:
        return [slot for slot in slots_of(self.schema, _manifest(self.specs[0])) if not slot.required]

    def _with(self, spec: PlayedSpec, slot: SpecSlot, value: object) -> PlayedSpec:
        if isinstance(spec, InvalidSpec) or (
            value is ABSENT and value_at(spec, slot.path[:-1]) in (ABSENT, None)
        ):
            return spec
        return with_value(spec, self.schema, slot.path, value)

    def _try(self, specs: Sequence[PlayedSpec]) -> bool:
        """Whether these specs break a rule that the case broke; they are the best so far then."""
        if process_time() > self._until or isinstance(specs[0], InvalidSpec):
            return False
        if not all(isinstance(one, InvalidSpec) or self.trial.admits(one) for one in specs):
            return False
        chain = failing_chain(self.player, specs)
        if chain is None or not self._rules & chain.rules:
            return False
        self.specs, self.chain = specs, chain
        return True


def failing_chain(player: TransitionPlayer, specs: Sequence[PlayedSpec]) -> PlayedChain | None:
    """The run of the specs if something is wrong in it; of one spec, either run of a new object."""
    if len(specs) == 1 and not isinstance(specs[0], InvalidSpec):
        return player.new_object(specs[0]).broken
    chain = player.play(specs)
    return None if chain.wrong_at is None else chain


def _manifest(spec: PlayedSpec) -> SpecManifest:
    return spec.manifest if isinstance(spec, InvalidSpec) else spec
