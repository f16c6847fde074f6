"""A schedule that is known in advance: the usual order, apart from some choices."""

from collections.abc import Sequence

from attrs import define, field

from reconcile.testing.exploration.schedule_gates import ScheduleGates, Transition
from reconcile.testing.faults import Choice
from reconcile.testing.world import World


@define(eq=False)
class PlannedSchedule:
    """Takes the `choices` where they are possible, and otherwise what is first."""

    choices: Sequence[Choice]
    _asked: int = field(default=0, init=False)

    def gates(self) -> ScheduleGates:
        """Gates that let everything happen that the choices name, also crashes and lost answers."""
        most = len(self.choices)
        return ScheduleGates(self, crashes=most, lost_answers=most, crashes_before=True)

    def watch(self, world: World) -> None:
        """A planned schedule does not depend on the world."""

    def choose(self, enabled: Sequence[Transition]) -> int:
        self._asked += 1
        labels = [choice.take for choice in self.choices if choice.at == self._asked]
        return next((place for place, one in enumerate(enabled) if one.label in labels), 0)

    def time_passes(self) -> None:
        """Nothing depends on it."""
