"""The chance of a simulation: numbers that a seed decides."""

from hypothesis import given
from hypothesis import strategies as st

from reconcile.testing.seeded_random import SeededRandom

SEEDS = st.text(max_size=20)


@given(SEEDS)
def test_a_seed_always_gives_the_same_numbers(seed: str) -> None:
    one, other = SeededRandom(seed), SeededRandom(seed)
    assert [one.bits() for _ in range(20)] == [other.bits() for _ in range(20)]
    assert SeededRandom(seed).bits() != SeededRandom(f"{seed}1").bits()


@given(SEEDS, st.floats(0, 10), st.floats(0, 10))
def test_a_number_lies_within_its_bounds(seed: str, least: float, span: float) -> None:
    chance = SeededRandom(seed)
    assert all(0 <= chance.random() < 1 for _ in range(20))
    assert all(least <= chance.uniform(least, least + span) <= least + span for _ in range(20))
    assert all(0 <= chance.bits() < 1 << 64 for _ in range(20))


@given(SEEDS, st.lists(st.integers(), max_size=10))
def test_a_shuffle_loses_nothing(seed: str, items: list[int]) -> None:
    shuffled = list(items)
    SeededRandom(seed).shuffle(shuffled)
    assert sorted(shuffled) == sorted(items)


def test_every_permutation_is_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for number in range(3000):
        items = [0, 1, 2]
        SeededRandom(f"{number}").shuffle(items)
        counts[tuple(items)] = counts.get(tuple(items), 0) + 1
    assert len(counts) == 6
    assert all(400 < count < 600 for count in counts.values())


def test_the_numbers_are_the_same_in_every_version() -> None:
    chance = SeededRandom("7/lag")
    assert [chance.bits() for _ in range(2)] == [454_384_527_666_223_160, 16_811_286_076_709_023_805]
    assert round(chance.random(), 6) == 0.529362
