"""The laws of a plan: even shares, few moves, and a living owner loses only what it has released."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile.sharding.assignment import Assignment, Holding, MemberRecord, Orders
from reconcile.sharding.planning import MOVES_AT_ONCE, plan, spared

NO_ORDERS = Orders()
NAMES = "abcdefgh"

Members = Mapping[str, MemberRecord]


def ring(names: Collection[str], **records: MemberRecord) -> Members:
    return {name: MemberRecord() for name in names} | records


def owners(assignment: Assignment) -> Sequence[str]:
    return [holding.owner for holding in assignment.holdings]


def shares(assignment: Assignment) -> Counter[str]:
    return Counter(owners(assignment))


def released(assignment: Assignment, members: Members) -> Members:
    """What members say once each has released what another is to own, or all if it leaves."""
    saying = {}
    for name, record in members.items():
        numbered = [(b, one) for b, one in enumerate(assignment.holdings) if one.owner == name]
        epochs = {b: one.epoch for b, one in numbered if one.next_owner or record.draining}
        saying[name] = evolve(record, released=epochs, beginning=assignment.beginning)
    return saying


def rounds(
    start: Assignment, members: Members, orders: Orders = NO_ORDERS, moves_at_once: int = MOVES_AT_ONCE
) -> list[Assignment]:
    """Assignments one after the other, as members release what they are to give, until nothing changes."""
    found = [start]
    while True:
        saying = released(found[-1], members)
        following = plan(found[-1], saying, orders, moves_at_once)
        if following == found[-1]:
            return found
        found.append(following)
        assert len(found) <= 3 * len(start.holdings) + 3, "it does not end"


def settled(
    start: Assignment, members: Members, orders: Orders = NO_ORDERS, moves_at_once: int = MOVES_AT_ONCE
) -> Assignment:
    return rounds(start, members, orders, moves_at_once)[-1]


def moved(before: Assignment, after: Assignment) -> Sequence[int]:
    pairs = zip(owners(before), owners(after), strict=True)
    return [bucket for bucket, (old, new) in enumerate(pairs) if old != new]


some_members = st.sets(st.sampled_from(NAMES), min_size=1)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Assignment, Members, Orders, int]:
    """Any assignment, with members that are somewhere in it, dead ones, and all that may be asked for."""
    count = draw(st.integers(1, 24))
    name = st.sampled_from(["", *NAMES])
    unowned = st.builds(Holding, epoch=st.integers(0, 3))
    holding = unowned | st.builds(Holding, st.sampled_from(NAMES), st.integers(0, 3), name, st.booleans())
    holdings = tuple(draw(st.lists(holding, min_size=count, max_size=count)))
    less = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, count), max_size=3))
    # No member releases what has not begun.
    begun = [(bucket, epoch) for bucket, one in enumerate(holdings) for epoch in range(one.epoch + 1)]
    epochs = st.lists(st.sampled_from(begun), max_size=count).map(dict)
    record = st.builds(
        MemberRecord,
        released=epochs,
        seen=st.dictionaries(st.sampled_from(["pods", "jobs"]), st.integers(0, 9)),
        draining=st.sampled_from([False, False, False, True]),
        canary=st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.3, 1.0]),
    )
    members = draw(st.dictionaries(st.sampled_from(NAMES), record, max_size=8))
    pins = draw(st.dictionaries(st.integers(-1, count), st.sampled_from(NAMES), max_size=count))
    drained = tuple(draw(st.sets(st.sampled_from(NAMES), max_size=3)))
    return Assignment(holdings, spared=less), members, Orders(pins, drained), draw(st.integers(0, 9))


@pytest.mark.rule("shard-even")
@given(some_members, some_members, st.integers(1, 60), st.integers(1, 9))
def test_shares_differ_by_at_most_one(
    before: set[str], after: set[str], buckets: int, moves_at_once: int
) -> None:
    first = settled(Assignment.empty(buckets, 1), ring(before))
    for names, assignment in (
        (before, first),
        (after, settled(first, ring(after), NO_ORDERS, moves_at_once)),
    ):
        counts = [shares(assignment)[name] for name in names]
        assert sum(counts) == buckets
        assert max(counts) - min(counts) <= 1


@pytest.mark.rule("shard-even")
def test_of_1024_buckets_no_member_of_20_has_5_percent_more_than_the_mean() -> None:
    assignment = settled(Assignment.empty(1024, 1), ring([f"member-{number}" for number in range(20)]))
    assert max(shares(assignment).values()) <= 1.05 * 1024 / 20


@pytest.mark.rule("shard-few-moves")
@given(some_members, st.integers(1, 60), st.data())
def test_if_a_member_joins_only_the_buckets_of_its_share_move(
    names: set[str], buckets: int, data: st.DataObject
) -> None:
    before = settled(Assignment.empty(buckets, 1), ring(names))
    joining = data.draw(st.sampled_from([f"{place}x" for place in ("", *names)]))
    after = settled(before, ring({*names, joining}))
    assert len(moved(before, after)) == shares(after)[joining] == buckets // (len(names) + 1)


@pytest.mark.rule("shard-few-moves")
@given(st.sets(st.sampled_from(NAMES), min_size=2), st.integers(1, 60), st.booleans(), st.data())
def test_if_a_member_leaves_or_dies_only_its_buckets_move(
    names: set[str], buckets: int, dies: bool, data: st.DataObject
) -> None:
    before = settled(Assignment.empty(buckets, 1), ring(names))
    gone = data.draw(st.sampled_from(sorted(names)))
    after = settled(
        before, ring(names - {gone}) if dies else ring(names, **{gone: MemberRecord(draining=True)})
    )
    assert moved(before, after) == before.owned_by(gone)
    assert all(after.holdings[bucket].clean != dies for bucket in before.owned_by(gone))


@pytest.mark.rule("shard-idempotent")
@given(situations(), st.randoms())
def test_a_second_plan_changes_nothing_whatever_the_order_of_members(
    situation: tuple[Assignment, Members, Orders, int], random: Random
) -> None:
    assignment, members, orders, moves_at_once = situation
    planned = plan(assignment, members, orders, moves_at_once)
    shuffled = list(members.items())
    random.shuffle(shuffled)
    assert plan(assignment, dict(shuffled), orders, moves_at_once) == planned
    assert plan(planned, members, orders, moves_at_once) == planned


@pytest.mark.rule("shard-released")
@given(situations())
def test_a_living_owner_loses_only_what_it_has_released(
    situation: tuple[Assignment, Members, Orders, int],
) -> None:
    assignment, members, orders, moves_at_once = situation
    planned = plan(assignment, members, orders, moves_at_once)
    for bucket, (before, after) in enumerate(zip(assignment.holdings, planned.holdings, strict=True)):
        owner = members.get(before.owner)
        has_released = owner is not None and owner.released.get(bucket) == before.epoch
        if owner is not None and not has_released:
            assert (after.owner, after.epoch, after.clean) == (before.owner, before.epoch, before.clean)
        if after.owner != before.owner:
            assert after.epoch == before.epoch + 1
            assert after.clean == (has_released or (before.clean and not before.owner))
            assert not after.next_owner
        if owner is not None and has_released:
            assert all(planned.reached[resource] >= version for resource, version in owner.seen.items())
        assert after.owner in ("", before.owner, *members)
    assert all(planned.reached[resource] >= version for resource, version in assignment.reached.items())


@pytest.mark.rule("shard-budget")
@given(situations())
def test_no_more_buckets_are_in_hand_over_than_may_be_at_once(
    situation: tuple[Assignment, Members, Orders, int],
) -> None:
    assignment, members, orders, moves_at_once = situation
    for before, after in zip(
        found := rounds(assignment, members, orders, max(1, moves_at_once)), found[1:], strict=False
    ):
        moving = [sum(1 for one in each.holdings if one.next_owner) for each in (before, after)]
        assert moving[1] <= max(moving[0], 1, moves_at_once)


@pytest.mark.rule("shard-ends")
@given(situations())
def test_plans_and_releases_come_to_an_end(situation: tuple[Assignment, Members, Orders, int]) -> None:
    assignment, members, orders, moves_at_once = situation
    found = rounds(assignment, members, orders, max(1, moves_at_once))
    # From then on no member is to own what another one owns.
    staying = {name for name, record in members.items() if not record.draining} - {*orders.drained}
    assert not any(holding.next_owner for holding in found[-1].holdings)
    assert {*owners(found[-1])} <= staying or not staying


@pytest.mark.rule("shard-orders")
@given(situations())
def test_pins_are_obeyed_and_drained_members_get_nothing(
    situation: tuple[Assignment, Members, Orders, int],
) -> None:
    assignment, members, orders, moves_at_once = situation
    staying = {name for name, record in members.items() if not record.draining} - {*orders.drained}
    after = settled(assignment, members, orders, max(1, moves_at_once))
    for bucket, name in orders.pins.items():
        if name in staying and 0 <= bucket < len(after.holdings):
            assert after.holdings[bucket].owner == name
    if staying:
        assert not {*owners(after)} & {*orders.drained}


@pytest.mark.rule("shard-orders")
def test_a_bucket_pinned_to_a_member_that_cannot_own_it_goes_to_any_other() -> None:
    pins = Orders({0: "b", 1: "gone"}, drained=("b",))
    assert shares(settled(Assignment.empty(8, 1), ring("abc"), pins)) == {"a": 4, "c": 4}


@pytest.mark.rule("shard-orders")
def test_pins_leave_the_others_even_shares() -> None:
    pins = Orders(dict.fromkeys(range(10), "a"))
    assert shares(settled(Assignment.empty(16, 1), ring("abcd"), pins)) == {"a": 10, "b": 2, "c": 2, "d": 2}


@pytest.mark.rule("shard-orders")
def test_where_all_are_drained_each_keeps_what_it_has_and_takes_back_what_was_not_taken() -> None:
    before = settled(Assignment.empty(4, 1), ring("ab"))
    orders = Orders(drained=("a", "b"))
    assert plan(before, ring("ab"), orders) == before
    a = MemberRecord(released={0: before.holdings[0].epoch})
    after = plan(before, {"a": a, "b": MemberRecord()}, orders)
    assert after.holdings[0] == Holding("a", before.holdings[0].epoch + 1, clean=True)
    assert owners(plan(before, ring("a"), orders)) == ["a"] * 4, "there is no other"
    assert owners(settled(Assignment.empty(4, 1), ring("ab"), orders)) == ["a", "b"] * 2


@pytest.mark.rule("shard-orders")
def test_what_the_last_member_of_a_ring_released_stays_clean_for_who_comes_next() -> None:
    before = settled(Assignment.empty(2, 1), ring("a"))
    leaving = released(before, {"a": MemberRecord(draining=True)})
    epoch = before.holdings[0].epoch
    left = plan(before, leaving, NO_ORDERS)
    assert left.holdings == (Holding("", epoch + 1, clean=True),) * 2
    assert plan(left, {}, NO_ORDERS) == left
    b = {"b": MemberRecord(beginning=1)}
    assert plan(left, b, NO_ORDERS).holdings == (Holding("b", epoch + 2, clean=True),) * 2
    assert plan(before, {**leaving, **b}, NO_ORDERS).holdings == (Holding("b", epoch + 1, clean=True),) * 2


@pytest.mark.rule("shard-budget")
def test_a_released_bucket_that_no_member_can_take_is_not_in_hand_over() -> None:
    before = Assignment((Holding("a", 5, "gone"), Holding("b", 5)))
    members = {"a": MemberRecord(released={0: 5}, draining=True)}
    assert plan(before, members, NO_ORDERS).holdings == (Holding("", 6, clean=True), Holding("", 6))


@pytest.mark.rule("shard-canary")
@given(
    some_members,
    some_members,
    st.floats(0.01, 1),
    st.integers(2, 60),
    st.dictionaries(st.integers(0, 5), st.sampled_from(NAMES)),
)
def test_canaries_share_their_part_as_long_as_there_are_others(
    canaries: set[str], others: set[str], share: float, buckets: int, pins: Mapping[int, str]
) -> None:
    members = ring(others - canaries, **dict.fromkeys(canaries, MemberRecord(canary=share)))
    after = settled(Assignment.empty(buckets, 1), members)
    of_canaries = sum(shares(after)[name] for name in canaries)
    most = max(1, min(int(buckets * share), buckets - 1))  # never the leader's bucket, the last
    assert of_canaries == (most if others - canaries else buckets)
    pinned = settled(after, members, Orders(pins))
    assert all(
        pinned.holdings[bucket].owner == name
        for bucket, name in pins.items()
        if name in members and bucket < buckets
    )


@pytest.mark.rule("shard-canary")
@given(situations())
def test_no_canary_has_the_bucket_of_the_leader_as_long_as_there_are_others(
    situation: tuple[Assignment, Members, Orders, int],
) -> None:
    assignment, members, orders, moves_at_once = situation
    staying = {name for name, record in members.items() if not record.draining} - {*orders.drained}
    others = {name for name in staying if not members[name].canary}
    leading = len(assignment.holdings) - 1
    leader = settled(assignment, members, orders, max(1, moves_at_once)).holdings[leading].owner
    pinned = orders.pins.get(leading)
    assert leader in ({pinned} if pinned in staying else others or staying) or not staying


@pytest.mark.rule("shard-canary")
def test_a_canary_gives_the_bucket_of_the_leader_away_once_another_member_joins() -> None:
    canary = MemberRecord(canary=0.5)
    alone = settled(Assignment.empty(8, 1), {"a": canary})
    found = rounds(alone, {"a": canary, "b": MemberRecord()})
    assert shares(found[-1]) == {"a": 4, "b": 4}
    assert found[-1].holdings[7] == Holding("b", alone.holdings[7].epoch + 1, clean=True)


SPARED_AT_MOST = 8
"""So many steps take a member to half of its share."""


@pytest.mark.rule("shard-spared")
@given(
    st.integers(2, 5),
    st.integers(1, 64),
    st.lists(st.sets(st.integers(0, 4)), max_size=40),
)
def test_late_members_are_spared_up_to_half_a_share_and_no_bucket_flaps(
    count: int, buckets: int, looks: list[set[int]]
) -> None:
    names = NAMES[:count]
    assignment = settled(Assignment.empty(buckets, 1), ring(names))
    moves, steps = Counter[int](), 0
    for late in looks:
        members = {name: MemberRecord(late=number in late) for number, name in enumerate(names)}
        less = spared(assignment, members, NO_ORDERS)
        assert all(
            assignment.spared.get(name, 0) <= less.get(name, 0) <= buckets / count / 2 for name in names
        )
        steps += less != assignment.spared
        after = settled(evolve(assignment, spared=less), members)
        moves.update(moved(assignment, after))
        # A step moves a bucket once at most, and no more than what is spared in it, but for the odd ones.
        grown = sum(less.get(name, 0) - assignment.spared.get(name, 0) for name in names)
        assert len(moved(assignment, after)) <= grown + count
        assignment = after
    assert steps <= count * SPARED_AT_MOST
    assert max(moves.values(), default=0) <= steps


@pytest.mark.rule("shard-spared")
def test_where_half_of_the_members_are_late_none_is_spared() -> None:
    assignment = settled(Assignment.empty(64, 1), ring("abcd"))
    late = MemberRecord(late=True)
    assert spared(assignment, ring("abcd", a=late), NO_ORDERS) == {"a": 2}
    assert spared(assignment, ring("abcd", a=late, b=late), NO_ORDERS) == {}


@pytest.mark.rule("shard-spared", "shard-canary")
def test_a_late_canary_is_spared_half_of_what_canaries_have_each() -> None:
    members = ring("cdef", a=MemberRecord(canary=0.1, late=True), b=MemberRecord(canary=0.1))
    assignment = settled(Assignment.empty(64, 1), members)
    assert shares(assignment)["a"] == 3
    for _ in range(SPARED_AT_MOST):
        assignment = evolve(assignment, spared=spared(assignment, members, NO_ORDERS))
    assert shares(settled(assignment, members))["a"] == 2


@pytest.mark.rule("shard-deleted")
def test_a_bucket_gets_its_first_owner_only_when_all_members_know_of_the_assignment() -> None:
    assignment = Assignment.empty(2, 900)
    knowing = MemberRecord(beginning=900)
    assert plan(assignment, {"a": knowing, "b": MemberRecord(beginning=7)}, NO_ORDERS) == assignment
    assert owners(plan(assignment, {"a": knowing, "b": knowing}, NO_ORDERS)) == ["a", "b"]
