"""`python -m tests.verification.compare_fuzz`: how soon `fuzz` finds bugs of the zoo, guided and not.

Three ways: `drawn` plans, without guidance; `blind`, which changes plans as `guided` does, but keeps each of
them, whatever it reached, and changes any of them next; and `guided`. A search ends after `MOST` plans.
Shrinking is not counted. The results go into the page of the documentation.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, TypeAlias

from attrs import asdict, frozen

from reconcile.testing import Scenario, SimulationError
from reconcile.testing.fuzzing import DrawnPlans
from reconcile.testing.guidance.corpus import Corpus, Reached
from reconcile.testing.guidance.guided_plans import GuidedPlans
from reconcile.testing.guidance.mutation import Parent
from reconcile.testing.seeded_random import SeededRandom
from tests.verification.measurements import PAGE, replaced_between
from tests.verification.zoo.all_bugs import BY_NAME, ZOO

SEEDS_APART = 1_000
SEEDS = 5
MOST = 80
"""Plans of a search."""
STORE = Path(__file__).parent / "fuzz_measured.json"
BEGIN, END = "<!-- the fuzz table begins -->\n", "<!-- the fuzz table ends -->\n"
COMPARED = [
    bug.name
    for bug in ZOO
    if bug.family not in ("operation", "stale state") and bug.found_by not in ("one run", "old views")
]
"""Bugs that need no certain edit, no certain view of the past, and more than the steps by themselves."""


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
class Searched:
    """A search with one seed: the plans until the bug was found, None if it was not, and the CPU seconds."""

    plans: int | None
    seconds: float


Measured: TypeAlias = dict[str, dict[str, list[Searched]]]
"""The searches by bug and way, one for each seed."""


def search(way: str, scenario: Scenario, seed: int, most: int = MOST) -> Searched:
    """Search for a violation until it is found or `most` plans were played."""
    began = process_time()
    searched = WAYS[way](scenario, seed)
    for number, plan in zip(range(1, most + 1), searched.plans(), strict=False):
        try:
            failed = searched.run(plan).failed
        except SimulationError:
            failed = True
        if failed:
            return Searched(number, round(process_time() - began, 2))
    return Searched(None, round(process_time() - began, 2))


def stored() -> Measured:
    """The last measurements."""
    found = json.loads(STORE.read_text()) if STORE.exists() else {}
    return {
        bug: {way: [Searched(**one) for one in searches] for way, searches in ways.items()}
        for bug, ways in found.items()
    }


def store(measured: Measured) -> None:
    """Keep measurements, in the order of the zoo."""
    kept = {
        name: {way: [asdict(one) for one in measured[name].get(way, ())] for way in WAYS}
        for name in COMPARED
        if name in measured
    }
    STORE.write_text(json.dumps(kept, indent=1) + "\n")


# --- the page -------------------------------------------------------------------------------------


def page_with(text: str, measured: Measured) -> str:
    """The page with the present table in place of the one that it has."""
    return replaced_between(text, BEGIN, END, "\n".join(table(measured)))


def table(measured: Measured) -> Iterator[str]:
    """What each way takes, in plans, and how the CPU seconds compare."""
    yield f"| bug | {' | '.join(WAYS)} | drawn : guided | blind : guided |"
    yield f"|{'---|' * (3 + len(WAYS))}"
    for name, ways in measured.items():
        cells = [_cell(ways[way]) for way in WAYS]
        ratios = [f"{ratio(ways[way], ways['guided']):.1f}" for way in ("drawn", "blind")]
        yield f"| `{name}` | {' | '.join((*cells, *ratios))} |"
    yield ""
    for way in ("drawn", "blind"):
        ratios_of_bugs = [ratio(ways[way], ways["guided"]) for ways in measured.values()]
        least, most = min(ratios_of_bugs), max(ratios_of_bugs)
        times = [plans_ratio(ways[way], ways["guided"]) for ways in measured.values()]
        yield (
            f"`{way}` takes {median(ratios_of_bugs):.1f} times the CPU seconds of `guided` for all searches "
            f"of a bug ({least:.1f} to {most:.1f}; the median of {len(ratios_of_bugs)} bugs), and "
            f"{median(times):.1f} times the plans until half of its searches have found it."
        )
        yield ""
    counts = {
        way: sum(one.plans is not None for ways in measured.values() for one in ways[way]) for way in WAYS
    }
    searches = sum(len(ways["guided"]) for ways in measured.values())
    yield f"Found in {searches} searches: {', '.join(f'{way} {counts[way]}' for way in WAYS)}."


def ratio(one: Sequence[Searched], other: Sequence[Searched]) -> float:
    """The CPU seconds that one way takes for those of another, both by the sum of their searches.

    A search that finds nothing counts with the seconds that it took, so it is too cheap.
    """
    return sum(searched.seconds for searched in one) / sum(searched.seconds for searched in other)


def plans_ratio(one: Sequence[Searched], other: Sequence[Searched]) -> float:
    """The median plans of one way for those of another; `MOST` for a search that finds nothing."""
    return median(searched.plans or MOST for searched in one) / median(
        searched.plans or MOST for searched in other
    )


def _cell(searches: Sequence[Searched]) -> str:
    found = [one.plans for one in searches if one.plans is not None]
    middle = median([inf if one.plans is None else one.plans for one in searches])
    typical = f"over {MOST}" if middle == inf else f"{middle:.0f}"
    return f"{typical} ({len(found)} of {len(searches)})"


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.verification.compare_fuzz", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="search with seeds from this one on")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="up to this one")
    parser.add_argument("--page", action="store_true", help="write the page from the last measurements")
    parser.add_argument("names", nargs="*", help="bugs (default: all that are compared)")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in COMPARED]:
        parser.error(f"not compared: {', '.join(unknown)}; these are: {', '.join(COMPARED)}")
    measured = stored()
    for seed in () if given.page else range(given.first, given.seeds):
        for name in given.names or COMPARED:
            for way in WAYS:
                searches = measured.setdefault(name, {}).setdefault(way, [])
                searched = search(way, BY_NAME[name].broken, SEEDS_APART * seed)
                searches[seed:] = [searched]  # later seeds follow
                print(f"{name}: {way}, seed {seed}: {searched.plans} plans, {searched.seconds} s", flush=True)
            store(measured)
    PAGE.write_text(page_with(PAGE.read_text(), stored()))


if __name__ == "__main__":
    main()
