"""What is told of buckets that come and go."""

from attrs import define, evolve, field

from reconcile.sharding.assignment import Assignment, Holding
from reconcile.sharding.hand_overs import HandOvers, taking
from reconcile.sharding.member_steps import CaughtUp, Ended, Followed, Input, MemberState, View, step


@define
class Told:
    """A member, and what was counted of its buckets; the last of three is the leader's."""

    counted: list[tuple[str, float]] = field(factory=list)
    state: MemberState = field(factory=lambda: MemberState("a"))
    hand_overs: HandOvers = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.hand_overs = HandOvers(2, self)

    def handed_over(self, hand_over: str, seconds: float) -> None:
        self.counted.append((hand_over, seconds))

    def give(self, given: Input, now: float) -> None:
        self.state, outputs = step(self.state, given)
        self.hand_overs.note(given, self.state, outputs, now)


def owned(epoch: int, owner: str = "a", **more: object) -> Assignment:
    holding = Holding(owner, epoch, clean=True)
    return Assignment((evolve(holding, **more), Holding(epoch=1), Holding(epoch=1)), beginning=1)  # type: ignore[arg-type]


def test_a_bucket_that_came_is_told_with_the_seconds_since_it_was_owned() -> None:
    told = Told()
    told.give(View(owned(3)), 10.0)
    told.give(Followed(frozenset({0})), 11.0)
    told.give(View(owned(3)), 12.0)
    told.give(CaughtUp(0, 3), 14.0)
    assert told.counted == [("taken", 4.0)]


def test_a_bucket_that_went_is_told_with_the_seconds_since_it_was_closed() -> None:
    told = Told()
    told.give(View(owned(3)), 0.0)
    told.give(Followed(frozenset({0})), 0.0)
    told.give(CaughtUp(0, 3), 0.0)
    told.give(View(owned(3, next_owner="b"), {0: 3}), 5.0)
    told.give(Ended(0, 3), 7.5)
    assert told.counted[1:] == [("given", 2.5)]


def test_a_bucket_that_was_given_away_unasked_is_lost() -> None:
    told = Told()
    told.give(View(owned(3)), 0.0)
    told.give(Followed(frozenset({0})), 0.0)
    told.give(CaughtUp(0, 3), 0.0)
    told.give(View(owned(4, owner="b")), 9.0)
    assert told.counted[1:] == [("lost", 0.0)]


def test_how_a_bucket_came_follows_from_the_assignment() -> None:
    assert taking(owned(2, clean=False), 0) == "first"
    assert taking(owned(3, clean=False), 0) == "orphaned"
    assert taking(owned(3), 0) == "taken"


def test_a_bucket_that_another_owner_gets_before_it_is_held_is_not_told() -> None:
    told = Told()
    told.give(View(owned(3)), 0.0)
    told.give(View(owned(4, owner="b")), 5.0)
    told.give(View(owned(5)), 50.0)
    told.give(Followed(frozenset({0})), 51.0)
    told.give(CaughtUp(0, 5), 52.0)
    assert told.counted == [("taken", 2.0)]
