"""How large each set is to be: the rows of Deployments, and the bounds under any schedule."""

import datetime
import random

import pytest
from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile.blocks import RevisionSet, Rollout, RolloutBounds, bounds_of

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def one(
    name: str, replicas: int, *, age: int = 0, of: int | None = None, limit: int | None = None
) -> RevisionSet:
    """A set that has what it is to have, all of it available; the older, the greater its age."""
    return RevisionSet(
        name, START - datetime.timedelta(seconds=age), replicas, replicas, replicas, desired=of, limit=limit
    )


def after(rollout: Rollout, new: RevisionSet | None, *old: RevisionSet) -> dict[str, int]:
    """The sizes of all sets, once the plan is carried out."""
    plan = rollout.plan(new, old)
    sizes = {each.name: each.replicas for each in (*([new] if new else []), *old)}
    return {**sizes, **plan.sizes, **({} if plan.create is None else {"made": plan.create})}


@pytest.mark.rule("aibrix-3d-bounds")
@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "bounds"),
    [
        ("0%", "0%", 0, (0, 1)),
        ("39%", "39%", 10, (4, 3)),
        ("25%", "25%", 3, (1, 0)),
        ("25%", "25%", 1, (1, 0)),
        (1, 0, 3, (1, 0)),
        (0, 1, 3, (0, 1)),
        (0, 0, 3, (0, 1)),
        ("100%", 0, 4, (4, 0)),
        ("33%", "33%", 3, (1, 0)),
        ("1%", "100%", 100, (1, 100)),
        ("1%", "99%", 101, (2, 99)),
    ],
)
def test_shares_of_a_surge_are_rounded_up_and_shares_of_unavailable_replicas_down(
    surge: int | str, unavailable: int | str, replicas: int, bounds: tuple[int, int]
) -> None:
    assert bounds_of(surge, unavailable, replicas) == RolloutBounds(*bounds)


@pytest.mark.rule("aibrix-3d-bounds")
@pytest.mark.parametrize("amount", ["oops", "5", "%", "-1%", -1, True, "1.5%"])
def test_an_invalid_amount_is_refused(amount: int | str) -> None:
    with pytest.raises(ValueError, match="got"):
        bounds_of(amount, 1, 3)
    with pytest.raises(ValueError, match="got"):
        Rollout(3, 1, amount)


@pytest.mark.rule("aibrix-3d-proportional")
@pytest.mark.parametrize(
    ("replicas", "was", "sizes", "wanted"),
    [
        (10, 5, (2, 3), (4, 6)),
        (3, 5, (2, 3), (1, 2)),
        (4, 9, (8, 1), (4, 0)),
        (10, 7, (2, 3, 2), (3, 4, 3)),
        (8, 13, (2, 8, 3), (1, 5, 2)),
        (4, 3, (1, 1, 1), (2, 1, 1)),
        (0, 5, (2, 3), (0, 0)),
        (3, 2, (1, 1), (2, 1)),  # both would get one more
        (7, 5, (1, 1, 1, 1, 1), (3, 1, 1, 1, 1)),  # none would
        (7, 5, (1, 3, 1), (1, 5, 1)),
        (4, 6, (3, 3), (2, 2)),
        (3, 4, (2, 2), (2, 1)),  # both would give one, the older does
        (5, 7, (1, 1, 1, 4), (1, 1, 1, 2)),
        (8, 4, (2, 2), (4, 4)),
    ],
)
def test_scaling_during_a_rollout_is_distributed_by_size(
    replicas: int, was: int, sizes: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    sets = [one(f"v{9 - age}", size, age=age, of=was, limit=was) for age, size in enumerate(sizes)]
    new, *old = sets
    got = after(Rollout(replicas, 0, replicas or 1), new, *old)
    assert tuple(got[each.name] for each in sets) == wanted


@pytest.mark.rule("aibrix-3d-proportional")
def test_the_surge_is_distributed_too() -> None:
    new, old = one("new", 6, of=10, limit=12), one("old", 6, age=1, of=10, limit=12)
    assert after(Rollout(20, 4, 1), new, old) == {"new": 12, "old": 12}


@pytest.mark.rule("aibrix-3d-proportional")
def test_a_scale_up_precedes_the_creation_of_a_new_set() -> None:
    old = one("old", 3, of=3)
    assert after(Rollout(5), None, old) == {"old": 5}
    assert after(Rollout(5), None, evolve(old, replicas=5, desired=5, present=5, available=5))["made"] == 2


@pytest.mark.rule("aibrix-3d-recreate")
def test_recreate_creates_the_new_set_only_after_the_old_replicas_are_gone() -> None:
    rollout, old = Rollout(3, recreate=True), one("old", 3, of=3)
    plan = rollout.plan(None, [old])
    assert (plan.sizes, plan.create, plan.waiting) == ({"old": 0}, None, True)
    emptied = evolve(old, replicas=0)
    assert rollout.plan(None, [emptied]).waiting
    gone = evolve(emptied, present=0, available=0)
    assert rollout.plan(None, [evolve(gone, observed=False)]).waiting
    assert rollout.plan(None, [gone], leftover=True).waiting
    assert rollout.plan(None, [gone]).create == 3


def test_a_scale_down_during_a_rollout_removes_unavailable_replicas_within_the_bounds() -> None:
    new = evolve(one("new", 5, of=10, limit=11), available=0)
    assert after(Rollout(5, 1, 0), new, one("old", 5, age=1, of=10, limit=11)) == {"new": 1, "old": 5}


# --- the bounds, under any schedule -------------------------------------------------------------------------


@define
class Filled:
    """A set with its controller, which may work on an old number and whose status may be read late."""

    name: str
    created: datetime.datetime
    replicas: int
    generation: int = 1
    seen: tuple[int, int] = (0, 0)
    there: int = 0
    serving: int = 0
    told: list[tuple[int, int, int]] = field(factory=lambda: [(0, 0, 0)])
    heard: int = 0
    desired: int = 0
    limit: int = 0

    def resize(self, replicas: int) -> None:
        self.replicas, self.generation = replicas, self.generation + 1

    def look(self) -> None:
        self.seen = (self.generation, self.replicas)

    def work(self) -> None:
        """As a replica set does: what does not serve goes first; then it says what there is."""
        generation, wanted = self.seen
        if generation:
            self.there = wanted
            self.serving = min(self.serving, wanted)
            self.told.append((generation, self.there, self.serving))

    def view(self) -> RevisionSet:
        generation, there, serving = self.told[self.heard]
        return RevisionSet(
            self.name, self.created, self.replicas, there, serving, generation >= self.generation,
            self.desired, self.limit,
        )  # fmt: skip


@define
class Whole:
    """An object whose template and number change while its sets are filled and emptied."""

    chance: random.Random
    rollout: Rollout
    sets: dict[str, Filled] = field(factory=dict)
    template: int = 0
    limits: list[int] = field(factory=list)
    floors: list[int] = field(factory=list)

    @property
    def there(self) -> int:
        return sum(each.there for each in self.sets.values())

    @property
    def serving(self) -> int:
        return sum(each.serving for each in self.sets.values())

    def roll(self) -> None:
        name = f"v{self.template}"
        views = {each.name: each.view() for each in self.sets.values()}
        old = [view for each, view in views.items() if each != name]
        plan = self.rollout.plan(views.get(name), old)
        for each, size in plan.sizes.items():
            self.sets[each].resize(size)
        if plan.create is not None:
            born = START + datetime.timedelta(seconds=len(self.sets))
            self.sets[name] = Filled(name, born, plan.create)
        for filled in self.sets.values():
            filled.desired, filled.limit = self.rollout.replicas, self.rollout.limit

    def act(self, what: str) -> None:
        if what == "roll":
            self.roll()
        elif what == "change":
            self.template += 1
        elif what == "scale":
            self.rollout = evolve(self.rollout, replicas=self.chance.randrange(8))
        elif self.sets:
            filled = self.chance.choice(list(self.sets.values()))
            if what == "look":
                filled.look()
            elif what == "work":
                filled.work()
            elif what == "hear":
                filled.heard = self.chance.randint(filled.heard, len(filled.told) - 1)
            elif filled.serving < filled.there:
                filled.serving += 1

    def step(self, what: str) -> None:
        """One act, after which both bounds hold, or are no worse broken than a user made them.

        What was asked for before counts until every set has done it, and was heard to have. Where fewer
        were said to serve than must, no more than that is promised: what does not serve has to go.
        """
        there, serving = self.there, self.serving
        known = sum(filled.view().sure for filled in self.sets.values())
        self.act(what)
        self.limits.append(self.rollout.limit)
        self.floors.append(min(self.rollout.floor, known))
        assert self.there <= max(there, *self.limits), (what, self)
        assert self.serving >= min(serving, *self.floors), (what, self)
        if all(filled.told[filled.heard][0] == filled.generation for filled in self.sets.values()):
            self.limits.clear()
            self.floors.clear()

    def settle(self) -> None:
        """Fair turns for everyone, until nothing changes any more."""
        for _ in range(40):
            for filled in self.sets.values():
                filled.look()
                filled.work()
                filled.serving = filled.there
                filled.work()
                filled.heard = len(filled.told) - 1
            self.step("roll")
        sizes = {name: filled.there for name, filled in self.sets.items() if filled.there}
        wanted = self.rollout.replicas
        assert sizes == ({f"v{self.template}": wanted} if wanted else {}), self


AMOUNTS = st.integers(0, 4) | st.sampled_from(["0%", "25%", "50%", "100%"])
ACTS = ("roll", "roll", "look", "work", "hear", "hear", "serve", "serve", "change", "scale")


@pytest.mark.rule("aibrix-3d-rolling", "aibrix-fleet-bounds")
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), surge=AMOUNTS, unavailable=AMOUNTS, replicas=st.integers(0, 7))
def test_no_schedule_breaks_a_bound_and_every_rollout_completes(
    seed: int, surge: int | str, unavailable: int | str, replicas: int
) -> None:
    whole = Whole(random.Random(seed), Rollout(replicas, surge, unavailable))
    for _ in range(120):
        whole.step(whole.chance.choice(ACTS))
    whole.settle()


VIEWS = st.builds(
    lambda replicas, present, available, observed, desired: RevisionSet(
        "x", START, replicas, present, min(available, present), observed, desired, None
    ),
    st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.booleans(), st.none() | st.integers(0, 9),
)  # fmt: skip


@pytest.mark.rule("aibrix-fleet-bounds")
@settings(max_examples=300, deadline=None)
@given(
    replicas=st.integers(0, 9), surge=AMOUNTS, unavailable=AMOUNTS, paused=st.booleans(),
    views=st.lists(VIEWS, max_size=4), newest=st.booleans(),
)  # fmt: skip
def test_no_plan_breaks_a_bound_for_any_observed_state(
    replicas: int,
    surge: int | str,
    unavailable: int | str,
    paused: bool,
    views: list[RevisionSet],
    newest: bool,
) -> None:
    rollout = Rollout(replicas, surge, unavailable, paused=paused)
    sets = [
        evolve(view, name=f"v{n}", created=START - datetime.timedelta(seconds=n))
        for n, view in enumerate(views)
    ]
    new, old = (sets[0], sets[1:]) if newest and sets else (None, sets)
    plan = rollout.plan(new, old)
    most = sum(max(plan.sizes.get(view.name, 0), view.most) for view in sets) + (plan.create or 0)
    assert most <= max(rollout.limit, sum(view.most for view in sets))
    sure = sum(min(view.available, plan.sizes.get(view.name, view.replicas)) for view in sets)
    assert sure >= min(sum(view.sure for view in sets), rollout.floor)
