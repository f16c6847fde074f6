"""What a plan costs a coordinator: 1,024 buckets and 20 members, at rest and as another one joins."""

from reconcile.sharding.assignment import Assignment, MemberRecord, Orders
from reconcile.sharding.planning import plan
from tests.bench._harness import best_us

BUCKETS = 1024
MEMBERS = {f"shop-operator-{number}": MemberRecord(beginning=1) for number in range(20)}
JOINED = {**MEMBERS, "shop-operator-new": MemberRecord(beginning=1)}


def figures() -> dict[str, float]:
    """Milliseconds of CPU time for one plan, and for the text of an assignment there and back."""
    settled = plan(Assignment.empty(BUCKETS, 1), MEMBERS, Orders())
    text = settled.to_text()
    return {
        "sharding.plan_ms": best_us(lambda: plan(settled, MEMBERS, Orders()), 50) / 1000,
        "sharding.plan_of_a_joining_member_ms": best_us(lambda: plan(settled, JOINED, Orders()), 50) / 1000,
        "sharding.text_ms": best_us(lambda: Assignment.from_text(text).to_text(), 50) / 1000,
    }
