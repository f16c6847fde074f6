"""The smallest plan that fails in the same way as a given one."""

from collections.abc import Callable, Iterator

from attrs import evolve

from reconcile.testing.faults import Coalesce, Fault, FaultPlan, Hold
from reconcile.testing.scenario_acts import Wait

MOST_TRIES = 150


def shrink(plan: FaultPlan, fails: Callable[[FaultPlan], bool], *, tries: int = MOST_TRIES) -> FaultPlan:
    """The plan without what it does not need to fail, after at most `tries` attempts."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(plan):
            if tries == 0:
                return plan
            tries -= 1
            if fails(candidate):
                plan, is_smaller = candidate, True
                break
    return plan


def _smaller(plan: FaultPlan) -> Iterator[FaultPlan]:
    """Smaller plans; those that leave out most come first."""
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
    choices = plan.schedule or ()
    for number in range(len(choices)):
        yield evolve(plan, schedule=choices[:number] + choices[number + 1 :])
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
