"""The tools of the kit as the comparison uses them: a scenario, a seed and a limit in; what was found out."""

from collections.abc import Callable, Mapping
from time import process_time

from attrs import frozen

from reconcile.testing import (
    Broken,
    FaultPlan,
    Scenario,
    SimulationError,
    explore,
    replay,
    seeds,
    sweep,
    transitions,
)
from tests.verification.old_views import old_views
from tests.verification.zoo.patterns import BugPattern, Tool

SEEDS = 50
EXPLORED_SECONDS = 5.0
TRANSITIONS_SECONDS = 60.0


@frozen
class Finding:
    """What a tool reports of a scenario: the rules that were broken, if any, and the CPU seconds it took."""

    rules: frozenset[str]
    seconds: float

    def __bool__(self) -> bool:
        return bool(self.rules)


TOOLS: Mapping[Tool, Callable[[Scenario, int, int | None], object]] = {
    "one run": lambda scenario, seed, _: replay(scenario, FaultPlan(seed=seed)),
    "seeds": lambda scenario, seed, most: seeds(scenario, most or SEEDS, first=seed),
    "sweep": lambda scenario, seed, most: sweep(scenario, seed=seed, most=most),
    "old views": lambda scenario, seed, most: old_views(scenario, seed, most=most),
    "explore": lambda scenario, _, most: explore(
        scenario, crashes=2, objects=5, seconds=EXPLORED_SECONDS, most=most
    ),
    "transitions": lambda scenario, seed, _: transitions(
        scenario, budget=TRANSITIONS_SECONDS, seed=seed, invariants=True
    ),
}
"""Ordered by cost; called with a scenario, a seed, and the most runs, None for all."""


def plays(bug: BugPattern, tool: Tool) -> bool:
    """Whether a tool is tried on a bug: transitions need a controller that heeds all fields."""
    return tool != "transitions" or bug.family == "operation"


def find(tool: Tool, scenario: Scenario, seed: int = 0, *, most: int | None = None) -> Finding:
    """Use a tool on a scenario until it finds something or is through; it makes at most `most` runs."""
    began = process_time()
    try:
        TOOLS[tool](scenario, seed, most)
    except Broken as broken:
        return Finding(broken.rules, process_time() - began)
    except SimulationError as error:
        return Finding(frozenset({type(error).__name__}), process_time() - began)
    return Finding(frozenset(), process_time() - began)
