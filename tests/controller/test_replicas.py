"""Which replicas count, which go first, and what is missing: decided once, for every controller."""

import datetime
import random
from typing import Any

import anyio
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Context, Controller, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.models import Object, decode, unstructured_kind
from reconcile.replicas import (
    DELETION_COST_ANNOTATION,
    Replica,
    diff_replicas,
    is_active,
    rank_victims,
    replica_of,
)
from reconcile.testing import FakeClient
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def replica(name: str, age: int = 0, **changes: Any) -> Replica:
    """A ready replica of an age in seconds."""
    return Replica(name, START - datetime.timedelta(seconds=age), **{"ready": True, **changes})


NAMES = st.text("abc", min_size=1, max_size=3)
REPLICAS = st.lists(
    st.builds(
        Replica,
        NAMES,
        st.integers(0, 3).map(lambda age: START - datetime.timedelta(seconds=age)),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.integers(-1, 1),
    ),
    max_size=8,
    unique_by=lambda one: one.name,
)
LISTED = st.sets(NAMES, max_size=4)


@pytest.mark.rule("replica-2")
def test_victims_are_ranked_by_listing_readiness_cost_age_and_name() -> None:
    ranked = [
        (replica("listed", 900, deletion_cost=9), "listed"),
        (replica("unready", 900, ready=False, deletion_cost=9), "not-ready"),
        (replica("cheap", 900, deletion_cost=-1), "cheapest"),
        (replica("young-a", 1), "cheapest"),
        (replica("young-b", 1), "cheapest"),
        (replica("old", 800), "cheapest"),
        (replica("dear", 1, deletion_cost=10), "newest"),
    ]
    shown = [one for one, _ in ranked]
    random.Random(0).shuffle(shown)
    assert [(victim.replica, victim.reason) for victim in rank_victims(shown, {"listed"})] == ranked


@pytest.mark.rule("replica-2")
@given(REPLICAS, LISTED, st.integers(0, 9), st.randoms(use_true_random=False))
def test_the_order_in_which_replicas_are_read_does_not_matter(
    observed: list[Replica], listed: set[str], desired: int, chance: random.Random
) -> None:
    shuffled = chance.sample(observed, len(observed))
    assert diff_replicas(desired, shuffled, listed=listed) == diff_replicas(desired, observed, listed=listed)


@pytest.mark.rule("replica-1")
@given(REPLICAS, LISTED, st.integers(0, 9))
def test_a_diff_ends_with_the_desired_number_of_active_replicas(
    observed: list[Replica], listed: set[str], desired: int
) -> None:
    diff = diff_replicas(desired, observed, listed=listed)
    assert len(diff.active) - len(diff.delete) + diff.create == desired
    assert {*diff.active, *diff.terminating, *diff.finished} == set(observed)
    assert all(is_active(victim.replica) for victim in diff.delete)
    named = {victim.replica.name for victim in diff.delete if victim.reason == "listed"}
    assert named == {one.name for one in diff.active} & listed


@pytest.mark.rule("replica-1")
@given(REPLICAS, st.integers(0, 9))
def test_a_terminating_victim_is_neither_counted_nor_chosen_again(
    observed: list[Replica], desired: int
) -> None:
    doomed = {victim.replica.name for victim in diff_replicas(desired, observed).delete}
    later = [evolve(one, terminating=True) if one.name in doomed else one for one in observed]
    diff = diff_replicas(desired, later)
    assert diff.delete == ()
    assert diff.create == max(0, desired - len(diff.active))
    assert doomed <= {one.name for one in diff.terminating}


@pytest.mark.rule("replica-3")
@given(REPLICAS, st.sets(NAMES, max_size=6))
def test_a_desired_name_exists_is_created_or_is_held_by_a_terminating_replica(
    observed: list[Replica], desired: set[str]
) -> None:
    diff = diff_replicas(desired, observed)
    free = desired - {one.name for one in observed}
    assert set(diff.names) == free
    assert diff.create == len(free)
    assert set(diff.held) == desired & {one.name for one in observed if one.terminating}
    assert {victim.replica.name for victim in diff.delete} == {one.name for one in diff.active} - desired


@pytest.mark.rule("replica-3")
def test_with_fixed_names_undesired_and_listed_replicas_are_deleted_listed_ones_first() -> None:
    observed = [replica(name, ready=name != "unready") for name in ("kept", "unready", "listed", "unwanted")]
    diff = diff_replicas(["kept", "listed", "new"], observed, listed=["listed"])
    assert [(victim.replica.name, victim.reason) for victim in diff.delete] == [
        ("listed", "listed"),
        ("unready", "not-ready"),
        ("unwanted", "newest"),
    ]
    assert (diff.create, diff.names, diff.held) == (1, ("new",), ())


@pytest.mark.rule("replica-1")
@given(REPLICAS)
def test_only_active_replicas_are_victims_and_only_finished_non_terminating_ones_are_cleaned_up(
    observed: list[Replica],
) -> None:
    active = {one.name for one in observed if not one.terminating and not one.finished}
    assert {victim.replica.name for victim in rank_victims(observed)} == active
    finished = {one.name for one in observed if one.finished and not one.terminating}
    assert {one.name for one in diff_replicas(1, observed).finished} == finished


def test_a_negative_number_of_replicas_is_refused() -> None:
    with pytest.raises(ValueError, match="got -1"):
        diff_replicas(-1, [replica("a")])


async def test_a_pod_is_read_as_a_replica() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {DELETION_COST_ANNOTATION: "-5"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    client = FakeClient(pod)
    model = type(await client.raw.unstructured(pod))
    read = await client.get(model, "p", "default")
    seen = replica_of(read)
    assert (seen.name, seen.ready, seen.finished, seen.terminating) == ("p", True, False, False)
    assert (seen.deletion_cost, seen.object) == (-5, read)
    async with client.editing(read, subresource="status") as draft:
        draft["status"] = {"phase": "Failed"}
    async with client.editing(await client.get(model, "p", "default")) as draft:
        del draft["metadata"]["annotations"]
    failed = replica_of(await client.get(model, "p", "default"))
    assert (failed.ready, failed.finished, failed.deletion_cost) == (False, True, 0)
    said = "^ConfigMap 'default/c' has no creationTimestamp: it was not read$"
    with pytest.raises(ValueError, match=said):
        replica_of(ConfigMap(metadata=ObjectMeta("c", "default")))


POD = unstructured_kind("v1", "Pod")


def pod(**parts: Any) -> Object:
    metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z", **parts.pop("metadata", {})}
    return decode(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **parts})


def test_a_pod_is_ready_only_by_its_ready_condition() -> None:
    for conditions, ready in [
        ([{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}], False),
        ([{"type": "Initialized", "status": "False"}, {"type": "Ready", "status": "True"}], True),
        ([], False),
    ]:
        assert replica_of(pod(status={"conditions": conditions})).ready is ready
    assert not replica_of(pod()).ready


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    going = replica_of(pod(metadata={"deletionTimestamp": "2026-01-01T00:01:00Z"}))
    assert going.terminating
    assert not is_active(going)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        *[(text, int(text)) for text in ("0", "7", "-7", "-08", "2147483647", "-2147483648")],
        *[
            (text, 0)
            for text in ("", "-", "+7", "08", "7.0", " 7", "1_0", "2147483648", "-2147483649", "9" * 5000)
        ],
    ],
)
def test_a_cost_is_read_as_kubernetes_reads_it(text: str, cost: int) -> None:
    """ParseInt of 32 bits; a plus or a zero in front makes it none (GetDeletionCostFromPodAnnotations)."""
    assert replica_of(pod(metadata={"annotations": {DELETION_COST_ANNOTATION: text}})).deletion_cost == cost
    assert replica_of(pod()).deletion_cost == 0


@pytest.mark.rule("replica-3")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_name_held_by_a_terminating_object_is_taken_as_soon_as_it_is_gone(
    world: World, seed: int
) -> None:
    """No polling: the deletion's event is what wakes the owner."""

    async def keep(ctx: Context[Toy]) -> None:
        observed = [replica_of(one) for one in await ctx.owned(ConfigMap)]
        for name in diff_replicas(["fixed"], observed).names:
            await ctx.create(ConfigMap(metadata=ObjectMeta(name, finalizers=("example.com/held",))))

    async with world.running(Controller(Toy, keep, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(5)
        first = await world.client.get(ConfigMap, "fixed", "default")
        await world.client.delete(first)
        await anyio.sleep(60)
        assert [str(request) for request in world.transport.writes] == [
            "CREATE /api/v1/namespaces/default/configmaps"
        ]
        async with world.client.editing(await world.client.get(ConfigMap, "fixed", "default")) as draft:
            draft.metadata.finalizers.clear()
        await anyio.sleep(5)
        assert (await world.client.get(ConfigMap, "fixed", "default")).uid != first.uid
    assert len(world.transport.writes) == 2
