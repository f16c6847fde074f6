"""Pods, nodes and pools: what fits where, which pool grows, and when one is left alone."""

import datetime
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile import ObjectMeta
from reconcile.blocks import (
    LACKING,
    BackoffTerms,
    CapacityPools,
    ExpanderOption,
    NodeTemplate,
    PodNeeds,
    Priorities,
    after_failure,
    amounts_of,
    class_of,
    fill,
    least_waste,
    pack,
)
from reconcile.blocks.capacity.pod_needs import requests_of
from reconcile.errors import (
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    ServerError,
    ServerTimeout,
    StaleVersion,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from reconcile.kinds import Pod, PodSpec
from reconcile.testing import FakeClient, run_once
from tests.blocks.capacity import node, options, pod, pool

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def seconds(number: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


def placed(one: PodNeeds, template: NodeTemplate) -> bool:
    return pack([one], template, 1).nodes == 1


# What a pod asks for.


@pytest.mark.rule("capacity-milli")
def test_requests_are_added_in_thousandths_without_intermediate_rounding() -> None:
    containers = [{"name": str(n), "resources": {"requests": {"cpu": "0.1"}}} for n in range(3)]
    assert requests_of({"containers": containers}) == {"cpu": 300, "pods": 1000}
    assert amounts_of({"cpu": "1n", "memory": "1Ki"}) == {"cpu": 1, "memory": 1024_000}


# Where a pod fits.


@pytest.mark.rule("capacity-fit")
def test_a_node_is_filled_to_the_last_thousandth() -> None:
    assert placed(pod(cpu="4"), node())
    assert not placed(pod(cpu="4.001"), node())
    assert not placed(pod(memory="8.1Gi"), node())
    assert pack([pod()], node(cpu="500m"), 9).left == {"d/p": "cpu"}


@pytest.mark.rule("capacity-fit")
def test_a_node_gets_no_more_pods_than_its_pod_limit() -> None:
    assert pack([pod(f"p{n}", "1m", "1Mi") for n in range(7)], node(pods="3"), 10).nodes == 3


UNMODELLED: dict[str, dict[str, Any]] = {
    "required podAntiAffinity": {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
    },
    "required podAffinity": {
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
    },
    "topologySpreadConstraints": {"topologySpreadConstraints": [{"maxSkew": 1}]},
    "volumes that are claims": {"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]},
    "resourceClaims": {"resourceClaims": [{"name": "gpu"}]},
    "a scheduler of its own": {"schedulerName": "volcano"},
}


@pytest.mark.rule("capacity-unmodelled")
@pytest.mark.parametrize("what", UNMODELLED)
def test_a_pod_with_an_unmodelled_feature_is_reported_and_left_alone(what: str) -> None:
    decision = CapacityPools().decide([pod(**UNMODELLED[what])], [], [pool("a")], NOW)
    assert decision.growths == ()
    assert decision.left == {"d/p": f"not modelled: {what}"}


@pytest.mark.rule("capacity-unmodelled")
def test_a_mere_preference_does_not_exclude_a_pod() -> None:
    spread = [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]
    preferred = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}
    one = pod(topologySpreadConstraints=spread, affinity=preferred)
    assert CapacityPools().decide([one], [], [pool("a")], NOW).growths[0].to == 1


# Which pool grows.


CONFIG = "5:\n- .*t2\\.micro.*\n10:\n- .*t2\\.large.*\n- .*t3\\.large.*\n50:\n- .*m4\\.4xlarge.*\n"
MICRO, T2, T3, M4 = "my-asg.t2.micro", "my-asg.t2.large", "my-asg.t3.large", "my-asg.m4.4xlarge"


@pytest.mark.rule("capi-2d-priority")
@pytest.mark.parametrize(
    ("config", "offered", "chosen"),
    [
        (CONFIG, [T2], [T2]),
        (CONFIG, [T2, M4], [M4]),
        ("5:\n- .*\n10:\n- .t2\\.large\n", [MICRO, T2], [T2]),
        (CONFIG, [T2, T3, MICRO], [T2, T3]),
    ],
)
def test_the_highest_matching_priority_wins(config: str, offered: list[str], chosen: list[str]) -> None:
    assert [one.pool for one in Priorities.parse(config)(options(*offered)).options] == chosen


@pytest.mark.rule("capacity-expanders")
def test_least_waste_chooses_the_smallest_unused_share_and_computes_it_exactly() -> None:
    small, large = node("2", "2Gi"), node("8", "8Gi")
    rooms = {"large": large, "small": small}
    found = [ExpanderOption(name, room, pack([pod()], room, 1)) for name, room in rooms.items()]
    assert [one.pool for one in least_waste(found).options] == ["small"]
    assert found[1].waste == Fraction(1, 2) + Fraction(1, 2)


@pytest.mark.rule("capacity-decide")
def test_a_pool_that_is_too_small_grows_to_its_limit_and_the_next_takes_the_rest() -> None:
    first = Priorities.parse("9:\n- best\n1:\n- second\n")
    pods = [pod(f"p{n}", "3") for n in range(5)]
    decision = CapacityPools([first]).decide(pods, [], [pool("best", 2, 5), pool("second", 0, 5)], NOW)
    assert [(one.pool, one.now, one.to) for one in decision.growths] == [("best", 2, 5), ("second", 0, 2)]
    assert decision.left == {}


@pytest.mark.rule("capacity-decide")
def test_pods_that_fit_on_existing_or_upcoming_nodes_need_no_new_ones() -> None:
    pods = [pod(f"p{n}", "3") for n in range(3)]
    upcoming = pool("a", 2, 10, upcoming=1)
    decision = CapacityPools().decide(pods, [node()], [upcoming], NOW)
    assert [(one.now, one.to) for one in decision.growths] == [(2, 3)]
    assert len(decision.housed) == 2


@pytest.mark.rule("capacity-decide")
def test_a_pool_that_cannot_grow_is_skipped_with_a_reason() -> None:
    backoff = after_failure(None, NOW, "no capacity")
    pools = [
        pool("full", 3, 3),
        pool("held", held="it is not healthy"),
        pool("unknown", template=None),
        pool("away", backoff=backoff),
    ]
    decision = CapacityPools().decide([pod()], [], pools, NOW)
    assert decision.growths == ()
    assert set(decision.skipped) == {"full", "held", "unknown", "away"}
    assert "d/p" in decision.left
    later = CapacityPools().decide([pod()], [], pools, NOW + seconds(301))
    assert [one.pool for one in later.growths] == ["away"]


# Laws.

AMOUNTS = st.integers(1, 5000)
PODS = st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=40).map(
    lambda found: [pod(f"p{n:02}", f"{cpu}m", f"{memory}Mi") for n, (cpu, memory) in enumerate(found)]
)


def refilled(pods: Sequence[PodNeeds], template: NodeTemplate, nodes: int) -> dict[int, list[PodNeeds]]:
    places = fill(pods, [template] * nodes)
    found: dict[int, list[PodNeeds]] = {}
    for one in pods:
        if one.name in places:
            found.setdefault(places[one.name], []).append(one)
    return found


@pytest.mark.rule("capacity-law")
@settings(max_examples=60, deadline=None)
@given(pods=PODS, most=st.integers(0, 40), chance=st.randoms(use_true_random=False))
def test_every_pod_is_placed_or_gets_a_reason_regardless_of_order(
    pods: list[PodNeeds], most: int, chance: Any
) -> None:
    packing = pack(pods, node(), most)
    assert set(packing.placed) | set(packing.left) == {one.name for one in pods}
    assert not set(packing.placed) & set(packing.left)
    assert packing.nodes <= min(most, len(packing.placed))
    shuffled = list(pods)
    chance.shuffle(shuffled)
    assert pack(shuffled, node(), most) == packing


@pytest.mark.rule("capacity-law")
@settings(max_examples=60, deadline=None)
@given(pods=PODS)
def test_no_node_is_overfull_and_the_counted_nodes_are_enough(pods: list[PodNeeds]) -> None:
    packing = pack(pods, node(), 100)
    found = refilled(pods, node(), packing.nodes)
    assert sorted(one.name for ones in found.values() for one in ones) == list(packing.placed)
    for ones in found.values():
        for name, amount in node().free.items():
            assert sum(one.amounts.get(name, 0) for one in ones) <= amount


@pytest.mark.rule("capacity-law")
@settings(max_examples=60, deadline=None)
@given(pods=PODS, size=st.integers(0, 5), room=st.integers(0, 30))
def test_a_second_decision_with_upcoming_nodes_adds_no_nodes(
    pods: list[PodNeeds], size: int, room: int
) -> None:
    before = pool("a", size, size + room)
    decision = CapacityPools().decide(pods, [], [before], NOW)
    assert all(one.to <= before.largest for one in decision.growths)
    grown = decision.growths[0].to if decision.growths else size
    after = evolve(before, size=grown, upcoming=grown - size)
    again = CapacityPools().decide(pods, [], [after], NOW)
    assert again.growths == ()
    assert set(again.housed) == {name for one in decision.growths for name in one.pods}


@pytest.mark.rule("capacity-law")
@settings(max_examples=40, deadline=None)
@given(pods=PODS, more=st.tuples(AMOUNTS, AMOUNTS))
def test_adding_a_pod_leaves_no_other_pod_without_a_place(
    pods: list[PodNeeds], more: tuple[int, int]
) -> None:
    one = pod("zz", f"{more[0]}m", f"{more[1]}Mi")
    left = set(pack(pods, node(), 1000).left)
    assert set(pack([*pods, one], node(), 1000).left) - left <= {one.name}


# Back-off.

TERMS = BackoffTerms(first=60, longest=180, forgotten=10_800)


@pytest.mark.rule("capi-2d-backoff")
def test_a_failure_during_a_back_off_moves_its_end_but_keeps_its_length() -> None:
    again = after_failure(after_failure(None, NOW, terms=TERMS), NOW + seconds(30), terms=TERMS)
    assert (again.seconds, again.until) == (60, NOW + seconds(90))


@pytest.mark.rule("capacity-classes")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StaleVersion(409, "Conflict", "changed"), "conflict"),
        (PreconditionFailed(409, "Conflict", "replaced"), "conflict"),
        (TooManyRequests(429, "TooManyRequests", "busy"), "throttled"),
        (ServerError(500, "InternalError", "no"), "transient"),
        (ServerTimeout(504, "Timeout", "no"), "transient"),
        (Unreachable("refused"), "transient"),
        (OutcomeUnknown("reset"), "transient"),
        (Invalid(422, "Invalid", "no"), "invalid"),
        (Unauthorized(401, "Unauthorized", "who"), "forbidden"),
        (Forbidden(403, "Forbidden", "no role"), "forbidden"),
        (Forbidden(403, "Forbidden", "machines is forbidden: exceeded quota: few"), "quota"),
        (NotFound(404, "NotFound", "gone"), "gone"),
    ],
)
def test_among_failed_requests_only_an_exceeded_quota_is_a_lack_of_capacity(error: Any, kind: str) -> None:
    assert class_of(error) == kind
    assert (kind in LACKING) == (kind == "quota")


# The how-to page.

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hold-capacity-pools.md"
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
NAMES: dict[str, Any] = {"__name__": "hold_capacity_pools"}
exec(compile(CODE, str(PAGE), "exec"), NAMES)
Rack: Any = NAMES["Rack"]


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) < 50
    assert len(CODE.splitlines()) <= 40


@pytest.mark.rule("capacity-decide")
async def test_racks_grow_for_pending_pods_and_not_again_while_their_machines_are_coming() -> None:
    spec = NAMES["RackSpec"]
    client = FakeClient(Rack(metadata=ObjectMeta("a", "default"), spec=spec(most=1)))
    await client.create(Rack(metadata=ObjectMeta("b", "default"), spec=spec()))
    for number in range(3):
        requests = {"cpu": "6", "memory": "1Gi"}
        container = {"name": "a", "image": "a", "resources": {"requests": requests}}
        metadata = ObjectMeta(f"p{number}", "default")
        await client.create(Pod(metadata=metadata, spec=PodSpec(containers=(container,))))
    for _ in range(2):
        assert (await run_once(NAMES["racks"], "default/a", client)).error is None
    assert [(await client.get(Rack, name, "default")).spec.replicas for name in ("a", "b")] == [1, 2]
