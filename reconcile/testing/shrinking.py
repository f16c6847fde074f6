"""From a plan that fails to the least that fails in the same way."""

from collections.abc import Callable, Collection, Iterator

from attrs import evolve

from reconcile.testing.acts import Wait
from reconcile.testing.faults import Coalesce, Fault, FaultPlan, Hold

MOST_TRIES = 150


def shrink(plan: FaultPlan, fails: Callable[[FaultPlan], bool], *, tries: int = MOST_TRIES) -> FaultPlan:
    """The plan with everything left out without which it still `fails`; at most so many tries."""
    left = tries
    again = True
    while again:
        again = False
        for smaller in _smaller(plan):
            if left == 0:
                return plan
            left -= 1
            if fails(smaller):
                plan, again = smaller, True
                break
    return plan


def _smaller(plan: FaultPlan) -> Iterator[FaultPlan]:
    """Plans that are a little less, the boldest first."""
    if len(plan.faults) > 1:
        yield evolve(plan, faults=())
    for number in range(len(plan.faults)):
        yield evolve(plan, faults=plan.faults[:number] + plan.faults[number + 1 :])
    acts = plan.acts or ()
    half = len(acts) // 2
    if half > 1:
        yield evolve(plan, acts=acts[:half])
    for number in reversed(range(len(acts))):
        yield evolve(plan, acts=acts[:number] + acts[number + 1 :])
    if plan.seed:
        yield evolve(plan, seed=0)
    for number, fault in enumerate(plan.faults):
        for smaller in _smaller_faults(fault):
            yield evolve(plan, faults=(*plan.faults[:number], smaller, *plan.faults[number + 1 :]))
    for number, act in enumerate(acts):
        if isinstance(act, Wait) and act.seconds > 1:
            yield evolve(plan, acts=(*acts[:number], Wait(1), *acts[number + 1 :]))


def _smaller_faults(fault: Fault) -> Iterator[Fault]:
    if fault.when.times != 1:
        yield evolve(fault, when=evolve(fault.when, times=1))
    if isinstance(fault.what, Hold | Coalesce) and fault.what.events > 1:
        yield evolve(fault, what=evolve(fault.what, events=fault.what.events - 1))


def same_rule(rules: Collection[str], others: Collection[str]) -> bool:
    """Whether two runs fail in the same way: at least one invariant is broken in both."""
    return not set(rules).isdisjoint(others)
