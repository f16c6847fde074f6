"""Changes of plans: of what users do, and of what goes wrong where the run of a plan showed that it can."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from attrs import evolve, frozen

from reconcile.testing.faults import Fault, FaultPlan, RequestFault, StreamFault, What
from reconcile.testing.guidance.observed_run import FaultPlace
from reconcile.testing.recorded_requests import service_of
from reconcile.testing.scenario_acts import ScenarioAct, Wait
from reconcile.testing.seeded_random import SeededRandom

T = TypeVar("T")
Spoil = Callable[[int], StreamFault]
"""Makes a fault of a stream from the number of lines before it."""

MOST_FAULTS = 6
MOST_ACTS = 16
_SEEDS = 1_000
_OTHER_ORDER = 0.3
"""The part of the changed plans that have another seed too: their tasks run in another order."""
_OFTEN = 0.1
"""The part of the faults of requests that strike three times."""
_WAITS = (0.0, 0.05, 0.1, 0.3, 1.0, 5.0)


@frozen
class FaultKinds:
    """The faults that may strike a write, any request, a watch, and a request to a service, by its name."""

    of_writes: Sequence[RequestFault]
    of_requests: Sequence[RequestFault]
    of_watches: Sequence[Spoil]
    of_services: Mapping[str, Sequence[What]]


@frozen
class Parent:
    """A plan, and the places that its run showed."""

    plan: FaultPlan
    places: Sequence[FaultPlace]


@frozen
class Mutator:
    """Makes new plans from kept ones and from `stock`, plans that were drawn; draws from `chance`."""

    chance: SeededRandom
    kinds: FaultKinds
    acts_of_processes: Sequence[ScenarioAct]

    def child(self, parent: Parent, stock: Sequence[FaultPlan], others: Sequence[Parent]) -> FaultPlan:
        """A plan that differs from its parent in one to three ways, and may have another seed."""
        plan = evolve(parent.plan, schedule=None)  # one that was explored fits no other plan
        while True:
            plan = self._change(plan, parent, stock, others)
            if self.chance.random() < 0.65 and plan != parent.plan:
                break
        if self.chance.random() < _OTHER_ORDER:
            other = evolve(plan, seed=self.chance.below(_SEEDS))
            return plan if other == parent.plan else other
        return plan

    def _change(
        self, plan: FaultPlan, parent: Parent, stock: Sequence[FaultPlan], others: Sequence[Parent]
    ) -> FaultPlan:
        what = self.chance.random()
        if what < 0.55:
            return self.struck(plan, parent.places)
        if what < 0.62:
            return self.borrowed_fault(plan, stock)
        if what < 0.72:
            return self.moved(plan, parent.places)
        if what < 0.78:
            return self.without_one(plan)
        if what < 0.90:
            return self.act_added(plan, stock)
        if what < 0.95:
            return self.spliced(plan, others)
        return evolve(plan, seed=self.chance.below(_SEEDS))

    # --- faults -----------------------------------------------------------------------------------

    def struck(self, plan: FaultPlan, places: Sequence[FaultPlace]) -> FaultPlan:
        """With one more fault, at a place that the run showed: mostly a write after the last fault."""
        place = self._place(places)
        if place is None or len(plan.faults) >= MOST_FAULTS:
            return plan
        return evolve(plan, faults=(*plan.faults, self._fault_at(place)))

    def _place(self, places: Sequence[FaultPlace]) -> FaultPlace | None:
        late = [place for place in places if place.late]
        among = late if late and self.chance.random() < 0.75 else places
        kind = self.chance.random()
        if kind < 0.7:
            chosen = [place for place in among if place.mutating]
        elif kind < 0.8:
            chosen = [place for place in among if not place.mutating and place.verb != "watch"]
        else:
            chosen = [place for place in places if place.verb == "watch"]
        among = chosen or among
        return self.chance.one_of(among) if among else None

    def _fault_at(self, place: FaultPlace) -> Fault:
        if place.verb == "watch" and self.chance.random() < 0.9:
            return Fault(
                place.when, self.chance.one_of(self.kinds.of_watches)(self.chance.below(place.lines + 3))
            )
        when = evolve(place.when, times=3 if self.chance.random() < _OFTEN else 1)
        return Fault(when, self.chance.one_of(self._kinds_at(place)))

    def _kinds_at(self, place: FaultPlace) -> Sequence[What]:
        if service := service_of(place.path):
            return self.kinds.of_services[service]
        return self.kinds.of_writes if place.mutating else self.kinds.of_requests

    def borrowed_fault(self, plan: FaultPlan, stock: Sequence[FaultPlan]) -> FaultPlan:
        """With a fault that was drawn for another plan."""
        faults = [fault for other in stock for fault in other.faults]
        if not faults or len(plan.faults) >= MOST_FAULTS:
            return plan
        return evolve(plan, faults=(*plan.faults, self.chance.one_of(faults)))

    def moved(self, plan: FaultPlan, places: Sequence[FaultPlace]) -> FaultPlan:
        """With one of its faults at another place, of another kind, or one request earlier or later."""
        if not plan.faults:
            return self.struck(plan, places)
        number = self.chance.below(len(plan.faults))
        fault = plan.faults[number]
        place = self._place(places)
        how = self.chance.random()
        if how < 0.5 and place is not None:
            fault = self._fault_at(place)
        elif how < 0.75:
            fault = evolve(fault, when=evolve(fault.when, nth=fault.when.nth + 1))
        elif fault.when.nth > 1:
            fault = evolve(fault, when=evolve(fault.when, nth=fault.when.nth - 1))
        return evolve(plan, faults=(*plan.faults[:number], fault, *plan.faults[number + 1 :]))

    # --- both -------------------------------------------------------------------------------------

    def without_one(self, plan: FaultPlan) -> FaultPlan:
        """Without one of its faults or acts."""
        acts = plan.acts or ()
        number = self.chance.below(len(plan.faults) + len(acts)) if plan.faults or acts else 0
        if number < len(plan.faults):
            return evolve(plan, faults=_without(plan.faults, number))
        number -= len(plan.faults)
        return evolve(plan, acts=_without(acts, number)) if len(acts) > 1 else plan

    def spliced(self, plan: FaultPlan, others: Sequence[Parent]) -> FaultPlan:
        """Its first acts and those of another plan after them, or the faults of both."""
        if not others:
            return plan
        other = self.chance.one_of(others).plan
        if self.chance.random() < 0.5 or plan.acts is None or other.acts is None:
            return evolve(plan, faults=(*plan.faults, *other.faults)[:MOST_FAULTS])
        acts = (
            *plan.acts[: 1 + self.chance.below(len(plan.acts))],
            *other.acts[self.chance.below(len(other.acts)) :],
        )
        return evolve(plan, acts=acts[:MOST_ACTS])

    # --- acts -------------------------------------------------------------------------------------

    def act_added(self, plan: FaultPlan, stock: Sequence[FaultPlan]) -> FaultPlan:
        """With an act that was drawn for another plan, or one of its own once more, at any position."""
        if plan.acts is None or len(plan.acts) >= MOST_ACTS:
            return plan
        drawn = [act for other in stock for act in other.acts or ()]
        what = self.chance.random()
        if what < 0.2:
            new: Sequence[ScenarioAct] = [self.chance.one_of(self.acts_of_processes)]
        elif what < 0.35:
            new = [Wait(self.chance.one_of(_WAITS))]
        elif what < 0.5 and plan.acts:
            new = [self.chance.one_of(plan.acts)]
        else:
            new = [self.chance.one_of(drawn)] if drawn else []
        position = self.chance.below(len(plan.acts) + 1)
        return evolve(plan, acts=(*plan.acts[:position], *new, *plan.acts[position:]))


def _without(items: Sequence[T], number: int) -> tuple[T, ...]:
    return (*items[:number], *items[number + 1 :])
