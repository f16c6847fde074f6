"""`python -m tests.verification.compare_fuzz`: how soon `fuzz` finds each bug of the zoo, guided and not.

Three ways: `drawn` plans, without guidance; `blind`, which changes plans as `guided` does, but keeps each of
them, whatever it reached; and `guided`. Shrinking is not counted. A search that has found nothing after
`--seconds` of CPU counts as one that takes longer than any other.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from time import process_time
from typing import Any, TypeAlias

from attrs import frozen

from reconcile.testing import Scenario, SimulationError
from reconcile.testing.fuzzing import DrawnPlans
from reconcile.testing.guidance.corpus import Corpus, Reached
from reconcile.testing.guidance.guided_plans import GuidedPlans
from reconcile.testing.guidance.mutation import Parent
from reconcile.testing.seeded_random import SeededRandom
from tests.verification.zoo.all_bugs import ZOO

SEEDS_APART = 1_000


class BlindCorpus(Corpus):
    """Keeps every plan that holds, whatever it reached, and chooses any of them."""

    def learn(self, situations: Any) -> Reached:
        return Reached(frozenset(), True)

    def choose(self, chance: SeededRandom) -> Parent:
        return chance.one_of(self.kept).parent


Search: TypeAlias = DrawnPlans | GuidedPlans

WAYS: Mapping[str, Callable[[Scenario, int], Search]] = {
    "drawn": DrawnPlans,
    "blind": lambda scenario, seed: GuidedPlans(scenario, seed, corpus=BlindCorpus()),
    "guided": GuidedPlans,
}


@frozen
class Found:
    """The plans and CPU seconds until a bug was found; infinite if it was not."""

    plans: float
    seconds: float


def search(way: str, scenario: Scenario, seed: int, seconds: float) -> Found:
    """Search for a violation until it is found or the time is over."""
    began = process_time()
    searched = WAYS[way](scenario, seed)
    for number, plan in enumerate(searched.plans(), 1):
        if process_time() - began > seconds:
            break
        try:
            failed = searched.run(plan).failed
        except SimulationError:
            failed = True
        if failed:
            return Found(number, process_time() - began)
    return Found(math.inf, math.inf)


def typical(found: Sequence[Found]) -> Found:
    """The median of several searches; infinite where half of them found nothing."""
    return Found(median(one.plans for one in found), median(one.seconds for one in found))


def compared(
    ways: Sequence[str], seeds: int, seconds: float, names: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, Found]]]:
    """Each bug, with what each way typically took."""
    for bug in ZOO:
        if names and bug.name not in names:
            continue
        yield (
            bug.name,
            {
                way: typical([search(way, bug.broken, SEEDS_APART * seed, seconds) for seed in range(seeds)])
                for way in ways
            },
        )


def cell(found: Found) -> str:
    return "-" if math.isinf(found.seconds) else f"{found.plans:.0f} / {found.seconds:.2f} s"


def ratio(slower: Found, faster: Found, least: float) -> float:
    """How many times as long the slower one took, or at least took; NaN if neither found anything."""
    if math.isinf(faster.seconds):
        return math.nan if math.isinf(slower.seconds) else 0.0
    return min(slower.seconds, least) / faster.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="searches of each bug in each way")
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds of a search")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("names", nargs="*", help="bugs (default: all)")
    given = parser.parse_args()
    ways = given.ways
    print(f"| bug | {' | '.join(ways)} |\n|{'---|' * (1 + len(ways))}")
    rows = []
    for name, found in compared(ways, given.seeds, given.seconds, given.names):
        rows.append(found)
        print(f"| `{name}` | {' | '.join(cell(found[way]) for way in ways)} |", flush=True)
    for way in [way for way in ways if way != "guided" and "guided" in ways]:
        ratios = [ratio(found[way], found["guided"], given.seconds) for found in rows]
        known = sorted(one for one in ratios if not math.isnan(one))
        if known:
            print(
                f"\nguided against {way}: {median(known):.1f} times as fast, the median of {len(known)} bugs"
            )


if __name__ == "__main__":
    main()
