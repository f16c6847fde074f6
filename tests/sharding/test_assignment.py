"""Texts of the assignment, of orders and of what members say: they come back, hostile ones are refused."""

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.sharding.assignment import Assignment, AssignmentError, Holding, MemberRecord, Orders

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
few = st.sampled_from(["shop-7d9f-0a1b2c3d", "shop-7d9f-4e5f6a7b", "x"])
numbers = st.integers(0, 2**63 - 1)
epochs = st.dictionaries(st.integers(0, 4096), numbers, max_size=5)


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    beginning = draw(st.integers(0, 2**62))
    holding = st.builds(
        Holding,
        owner=few | st.just(""),
        epoch=st.integers(beginning, 2**63),
        next_owner=few | names | st.just(""),
        clean=st.booleans(),
    )
    holdings = tuple(draw(st.lists(holding, max_size=20)))
    return Assignment(
        holdings,
        reached=draw(st.dictionaries(names, numbers, max_size=3)),
        labelled=tuple(draw(st.lists(names, max_size=3))),
        spared=draw(st.dictionaries(names, st.integers(0, len(holdings)), max_size=3)),
        beginning=beginning,
    )


records = st.builds(
    MemberRecord,
    warm=epochs,
    released=epochs,
    seen=st.dictionaries(names, numbers, max_size=3),
    beginning=numbers,
    draining=st.booleans(),
    canary=st.floats(0, 1),
    late=st.booleans(),
    labelled=st.lists(names, max_size=3).map(tuple),
    version=names | st.just(""),
)
orders = st.builds(
    Orders,
    pins=st.dictionaries(st.integers(0, 4096), names, max_size=5),
    drained=st.lists(names, max_size=3).map(tuple),
)


@pytest.mark.rule("shard-texts")
@given(assignments(), records, orders)
def test_a_text_gives_back_what_was_written(
    assignment: Assignment, record: MemberRecord, asked: Orders
) -> None:
    assert Assignment.from_text(assignment.to_text()) == assignment
    assert MemberRecord.from_text(record.to_text()) == record
    assert Orders.from_text(asked.to_text()) == asked


def test_an_empty_text_has_no_orders_and_says_nothing() -> None:
    assert (Orders.from_text(""), MemberRecord.from_text("")) == (Orders(), MemberRecord())
    with pytest.raises(AssignmentError):
        Assignment.from_text("")


ANYTHING_BUT_A_TEXT = [
    "no JSON",
    "{",
    "null",
    "[]",
    "7",
    '"text"',
    "\ud800",
    '{"owners": NaN}',
    '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"x": "' + "x" * 10_000_000 + '"}',
]
READERS: list[Callable[[str], object]] = [Assignment.from_text, MemberRecord.from_text, Orders.from_text]


@pytest.mark.rule("shard-texts")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "text", ANYTHING_BUT_A_TEXT, ids=lambda text: text[:12].encode("ascii", "replace").decode()
)
def test_what_is_no_text_of_ours_is_refused(reader: Callable[[str], object], text: str) -> None:
    with pytest.raises(AssignmentError, match="cannot be read"):
        reader(text)


@pytest.mark.rule("shard-texts")
@pytest.mark.parametrize(
    "given",
    [
        {"owners": [0]},
        {"owners": [0], "epochs": [1, 2], "members": ["a"]},
        {"owners": [1], "epochs": [0], "members": ["a"]},
        {"owners": [-2], "epochs": [0], "members": ["a", "b"]},
        {"owners": [0.0], "epochs": [0], "members": ["a"]},
        {"owners": [True], "epochs": [0], "members": ["a", "b"]},
        {"owners": [0], "epochs": [-1], "members": ["a"]},
        {"owners": [0], "epochs": ["1"], "members": ["a"]},
        {"owners": [0], "epochs": [0], "members": [7]},
        {"owners": [0], "epochs": [0], "members": ["a"], "nextOwners": {"1": 0}},
        {"owners": [0], "epochs": [0], "members": ["a"], "nextOwners": {"-1": 0}},
        {"owners": [0], "epochs": [0], "members": ["a"], "nextOwners": {"0": 1}},
        {"owners": [0], "epochs": [0], "members": ["a"], "nextOwners": {"0": -2}},
        {"owners": [0], "epochs": [0], "members": ["a"], "nextOwners": {"x": 0}},
        {"owners": [0], "epochs": [0], "members": ["a"], "unclean": [1]},
        {"owners": [0], "epochs": [0], "members": ["a"], "unclean": [-1]},
        {"owners": [0], "epochs": [0], "members": ["a"], "spared": {"a": -1}},
        {"owners": [0], "epochs": [0], "members": ["a"], "spared": {"a": 10**30}},
        {"owners": [0], "epochs": [0], "members": ["a"], "reached": {"pods": None}},
    ],
    ids=str,
)
def test_an_assignment_that_contradicts_itself_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(AssignmentError, match="cannot be read"):
        Assignment.from_text(json.dumps(given))


@pytest.mark.rule("shard-texts")
@pytest.mark.parametrize(
    "text",
    [
        '{"warm": {"1": 1.5}}',
        '{"released": {"x": 1}}',
        '{"released": [1]}',
        '{"seen": {"pods": "7"}}',
        '{"canary": 1e999}',
        '{"canary": true}',
        '{"draining": 1}',
        '{"labelled": "pods"}',
    ],
)
def test_a_record_with_values_of_other_types_is_refused(text: str) -> None:
    with pytest.raises(AssignmentError, match="record of a member cannot be read"):
        MemberRecord.from_text(text)


@given(
    st.text() | st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists).map(json.dumps)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in READERS:
        with contextlib.suppress(AssignmentError):
            reader(text)


@pytest.mark.rule("shard-size")
@pytest.mark.parametrize(("buckets", "most"), [(1025, 30_000), (4097, 200_000)])
def test_an_assignment_fits_into_an_annotation(buckets: int, most: int) -> None:
    chance = random.Random(7)
    members = [
        f"payment-operator-{chance.getrandbits(64):016x}-{chance.getrandbits(32):08x}" for _ in range(20)
    ]
    beginning = 4_000_000_000
    holdings = tuple(
        Holding(chance.choice(members), beginning + chance.randrange(100_000), chance.choice(members), False)
        for _ in range(buckets)
    )
    reached = {f"{number}things.example.com": beginning for number in range(50)}
    assignment = Assignment(holdings, reached, tuple(reached), dict.fromkeys(members, 5), beginning)
    assert len(assignment.to_text()) < most
    assert Assignment.from_text(assignment.to_text()) == assignment


@pytest.mark.parametrize(
    ("now", "more"),
    [
        (MemberRecord(warm={1: 3, 2: 3}, released={4: 7}), False),
        (MemberRecord(warm={1: 3}), False),
        (MemberRecord(), False),
        (MemberRecord(warm={1: 3, 2: 4}, released={4: 7}), True),
        (MemberRecord(warm={5: 3}), True),
        (MemberRecord(released={4: 7, 5: 7}), True),
        (MemberRecord(warm={1: 3, 2: 3}, released={4: 7}, beginning=9), True),
        (MemberRecord(warm={1: 3, 2: 3}, released={4: 7}, draining=True), True),
        (MemberRecord(seen={"v1/pods": 12}), True),
    ],
)
def test_others_need_to_know_soon_what_a_member_says_more_and_not_what_it_says_no_more(
    now: MemberRecord, more: bool
) -> None:
    assert now.says_more_than(MemberRecord(warm={1: 3, 2: 3}, released={4: 7})) is more
