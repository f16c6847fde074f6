"""The values of the model of a ring: each by a number, and as they are once something is past."""

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from attrs import define, evolve, field

from reconcile.sharding.assignment import Assignment, MemberRecord
from reconcile.sharding.member_steps import MemberState, View

LONG_PAST, FIRST, PAST, PRESENT = range(4)
"""The epochs: of any time before another, of a bucket that never had an owner, of before, and of now."""

T = TypeVar("T")


@define
class Numbered(Generic[T]):
    """Values by number, equal ones by the same."""

    key: Callable[[T], Hashable]
    values: list[T] = field(factory=list)
    numbers: dict[Hashable, int] = field(factory=dict)

    def __call__(self, value: T) -> int:
        key = self.key(value)
        if (known := self.numbers.get(key)) is None:
            known = self.numbers[key] = len(self.values)
            self.values.append(value)
        return known


def resource(bucket: int) -> str:
    return f"of {bucket}"


def changed(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def at_present(assignment: Assignment, bucket: int) -> Assignment:
    if not assignment.holdings:
        return assignment
    present = evolve(assignment.holdings[bucket], epoch=PRESENT)
    return evolve(assignment, holdings=changed(assignment.holdings, bucket, present))


def older_assignment(assignment: Assignment, bucket: int) -> Assignment:
    return evolve(assignment, reached=older(assignment.reached, bucket))


def older_record(record: MemberRecord, bucket: int) -> MemberRecord:
    return evolve(record, seen=older(record.seen, bucket))


def older(versions: Mapping[str, int], bucket: int) -> Mapping[str, int]:
    return {**versions, resource(bucket): 0} if versions.get(resource(bucket)) else versions


def past_record(record: MemberRecord, bucket: int) -> MemberRecord:
    def past(epochs: Mapping[int, int]) -> Mapping[int, int]:
        return {b: min(epoch, PAST) if b == bucket else epoch for b, epoch in epochs.items()}

    return evolve(record, warm=past(record.warm), released=past(record.released))


def outdated_record(record: MemberRecord, _: int) -> MemberRecord:
    return evolve(record, beginning=0)


def key_of_assignment(one: Assignment) -> Hashable:
    return one.holdings, frozenset(one.reached.items()), one.beginning


def key_of_record(one: MemberRecord) -> Hashable:
    epochs = frozenset(one.warm.items()), frozenset(one.released.items())
    return *epochs, frozenset(one.seen.items()), one.beginning, one.draining


def key_of_view(one: View) -> Hashable:
    return key_of_assignment(one.assignment), frozenset(one.warm.items())


def key_of_state(one: MemberState) -> Hashable:
    return one.identity, frozenset(one.phases.items()), one.followed, key_of_view(one.view), one.leaving
