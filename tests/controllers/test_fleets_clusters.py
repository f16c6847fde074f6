"""What a RayCluster tells of itself, and the numbers that a set says of those that it has."""

import datetime
from typing import Any

import pytest

from controllers.fleets.replica_set_plan import (
    FleetCluster,
    SetPlan,
    cluster_of,
    counts,
    next_available,
    plan_set,
)
from reconcile import Object, ObjectMeta
from reconcile.models import decode, unstructured_kind
from reconcile.replicas import DELETION_COST_ANNOTATION

CREATED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NOW = CREATED + datetime.timedelta(hours=1)
WholeCluster = unstructured_kind("ray.io/v1", "RayCluster")
PROVISIONED, HEAD_READY, SUSPENDED = "RayClusterProvisioned", "HeadPodReady", "RayClusterSuspended"


def stored(status: dict[str, Any] | None = None, **metadata: Any) -> Object:
    given = {"name": "x", "namespace": "y", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    raw = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": given}
    return decode(WholeCluster, raw if status is None else {**raw, "status": status})


def said(name: str, second: int | None = None, status: str | None = "True") -> dict[str, Any]:
    one = {"type": name} if status is None else {"type": name, "status": status}
    return one if second is None else {**one, "lastTransitionTime": f"2026-01-01T00:00:{second:02}Z"}


def a(name: str, ready_for: float | None = 100.0, age: float = 100.0, **labels: str) -> FleetCluster:
    since = None if ready_for is None else NOW - datetime.timedelta(seconds=ready_for)
    whole = WholeCluster(metadata=ObjectMeta(name))
    return FleetCluster(name, NOW - datetime.timedelta(seconds=age), labels, whole, since)


def test_a_cluster_view_has_everything_that_its_set_needs() -> None:
    obj = stored(
        {"conditions": [said(PROVISIONED, 7)]},
        labels={"app": "ray"},
        annotations={DELETION_COST_ANNOTATION: "5"},
        deletionTimestamp="2026-01-01T00:30:00Z",
        deletionGracePeriodSeconds=0,
        finalizers=["example.com/held"],
    )
    since = CREATED + datetime.timedelta(seconds=7)
    assert cluster_of(obj) == FleetCluster("x", CREATED, {"app": "ray"}, obj, since, True, False, 5)
    bare = stored()
    assert cluster_of(bare) == FleetCluster("x", CREATED, {}, bare, None, False, False, 0)


@pytest.mark.parametrize(
    ("status", "second"),
    [
        ({"state": "ready", "conditions": None}, 0),
        ({"state": "suspended"}, None),
        ({"state": "ready", "conditions": [said(HEAD_READY, 9)]}, 0),
        ({"state": "ready", "conditions": [said(PROVISIONED, 9, "False")]}, None),
        ({"conditions": [said(PROVISIONED)]}, 0),
        ({"conditions": [said(PROVISIONED, 5), said(HEAD_READY, 9)]}, 9),
        ({"conditions": [said(PROVISIONED, 9), said(HEAD_READY, 5)]}, 9),
        ({"conditions": [said(PROVISIONED, 5), said(HEAD_READY)]}, 5),
        ({"conditions": [said(PROVISIONED, 5), said(HEAD_READY, 9, None)]}, 9),
        ({"conditions": [said(PROVISIONED, 5), said(HEAD_READY, 9, "Unknown")]}, None),
        ({"conditions": [said(PROVISIONED, 5), said(SUSPENDED, 9, "False")]}, 5),
        ({"conditions": [said(PROVISIONED, 5), said(SUSPENDED, 9, None)]}, 5),
        ({"conditions": [said(PROVISIONED, 5), said(SUSPENDED, 9)]}, None),
        ({"conditions": [said(PROVISIONED, 5, "Unknown")]}, None),
    ],
)
def test_a_cluster_is_ready_since_the_last_of_its_required_conditions(
    status: dict[str, Any], second: int | None
) -> None:
    since = None if second is None else CREATED + datetime.timedelta(seconds=second)
    assert cluster_of(stored(status)).ready_since == since


def test_a_set_plan_names_the_counted_clusters_and_those_to_delete() -> None:
    one, two, three = a("one"), a("two", ready_for=0.0), a("three", None)
    assert plan_set(5, [two, three, one], NOW) == SetPlan(2, (), (one, three, two))
    assert plan_set(3, [two, three, one], NOW) == SetPlan(0, (), (one, three, two))
    assert plan_set(0, [two, three, one], NOW) == SetPlan(0, (three, one, two), (one, three, two))


def test_a_cluster_is_available_once_the_whole_minimum_time_has_passed() -> None:
    young, old = a("young", 10.0, age=20), a("old", 9.5, age=40)
    assert plan_set(1, [young, old], NOW, 10).delete == (old,)
    young, old = a("young", 10.0, age=20), a("old", 10.0, age=40)
    assert plan_set(1, [young, old], NOW, 10).delete == (old,)
    young, old = a("young", 9.5, age=20), a("old", 10.0, age=40)
    assert plan_set(1, [young, old], NOW, 10).delete == (young,)


def test_a_set_counts_its_clusters() -> None:
    clusters = [
        a("plain", 10.0, app="ray", tier="a"),
        a("fresh", 9.5, app="ray"),
        a("broken", None, app="ray"),
        a("foreign", 100.0, app="other"),
    ]
    assert counts(clusters, {"app": "ray"}, NOW, 10) == {
        "replicas": 4,
        "fully_labeled_replicas": 3,
        "ready_replicas": 3,
        "available_replicas": 2,
    }


def test_the_next_cluster_to_become_available_is_waited_for_even_briefly() -> None:
    clusters = [a("done", 10.0), a("soon", 9.5), a("later", 2.0), a("broken", None)]
    assert next_available(clusters, NOW, 10) == 0.5
    assert next_available([a("done"), a("broken", None)], NOW, 10) is None
