"""Templates of fleets: what is put into them and left out, and each fault that a spec can have."""

from copy import deepcopy
from typing import Any

import pytest
from attrs import evolve

from controllers.fleets.cluster_template import (
    canonical,
    faults_of,
    is_of_template,
    prepared,
    rollout_of,
    scaling_selector,
    selector_faults,
)
from controllers.fleets.models import (
    ClusterTemplate,
    FleetSpec,
    RayClusterReplicaSet,
    RayClusterReplicaSetSpec,
    RollingUpdate,
    Strategy,
)
from reconcile import LabelSelector, ObjectMeta
from reconcile.blocks import Rollout
from reconcile.models import structure
from tests.controllers.fleets import LABELS, fleet, rolling, template

FLEET = "orchestration.aibrix.ai/raycluster-fleet-name"
HASH = "pod-template-hash"


def whole(head: Any, *workers: Any, metadata: Any = None) -> dict[str, Any]:
    groups = {"headGroupSpec": {"template": head}, "workerGroupSpecs": [{"template": one} for one in workers]}
    return {"spec": {"rayVersion": "2", **groups}, **({} if metadata is None else {"metadata": metadata})}


BARE, KEPT = {"spec": {"a": 1}}, {"metadata": {"labels": {"b": "c"}}, "spec": {}}


@pytest.mark.rule("aibrix-3d-label")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (whole(BARE), whole(BARE)),
        (whole({**BARE, "metadata": None}), whole(BARE)),
        (whole({**BARE, "metadata": {"labels": {FLEET: "x"}}}), whole(BARE)),
        (whole({**BARE, "metadata": {"labels": None, "name": "", "annotations": {}}}), whole(BARE)),
        (whole(BARE, {"metadata": {"labels": {FLEET: "x", "b": "c"}}, "spec": {}}), whole(BARE, KEPT)),
        (whole(BARE, KEPT, metadata={"labels": {HASH: "x"}}), whole(BARE, KEPT)),
        (whole(BARE, metadata={"name": None, "labels": {}}), whole(BARE)),
        (
            whole(BARE, metadata={"labels": {HASH: "x", FLEET: "y"}, "annotations": {"d": "e"}}),
            whole(BARE, metadata={"labels": {FLEET: "y"}, "annotations": {"d": "e"}}),
        ),
        (
            whole({**BARE, "metadata": {"labels": {HASH: "x"}, "finalizers": []}}),
            whole({**BARE, "metadata": {"labels": {HASH: "x"}, "finalizers": []}}),
        ),
        ({"spec": None}, {"spec": {}}),
        ({}, {"spec": {}}),
        (
            {"spec": {"headGroupSpec": "x", "workerGroupSpecs": [{"template": None}, {"template": BARE}]}},
            {"spec": {"headGroupSpec": "x", "workerGroupSpecs": [{"template": None}, {"template": BARE}]}},
        ),
    ],
)
def test_a_canonical_template_has_only_its_own_non_empty_fields(
    given: dict[str, Any], says: dict[str, Any]
) -> None:
    assert canonical(deepcopy(given)) == says


@pytest.mark.rule("aibrix-3d-label")
@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {"metadata": {"labels": {HASH: "abc"}}}),
        ({"spec": None}, {"metadata": {"labels": {HASH: "abc"}}, "spec": None}),
        (
            whole({**BARE, "metadata": None}, KEPT, metadata={"name": "n", "labels": {"f": "g"}}),
            whole(
                {**BARE, "metadata": {"labels": {FLEET: "mine"}}},
                {"metadata": {"labels": {"b": "c", FLEET: "mine"}}, "spec": {}},
                metadata={"name": "n", "labels": {"f": "g", HASH: "abc"}},
            ),
        ),
        (
            whole({"metadata": {"name": "n", "labels": {FLEET: "other"}}}, metadata={"labels": None}),
            whole({"metadata": {"name": "n", "labels": {FLEET: "mine"}}}, metadata={"labels": {HASH: "abc"}}),
        ),
    ],
)
def test_clusters_carry_the_hash_and_their_pods_the_fleet(
    given: dict[str, Any], made: dict[str, Any]
) -> None:
    assert prepared(deepcopy(given), "mine", "abc") == made


def test_a_set_belongs_to_an_equal_template() -> None:
    given = prepared(whole(BARE), "mine", "abc")
    spec = RayClusterReplicaSetSpec(ClusterTemplate(given["spec"], given["metadata"]), LabelSelector(LABELS))
    made = RayClusterReplicaSet(metadata=ObjectMeta("x", "y"), spec=spec)
    assert is_of_template(made, canonical(whole(BARE)))
    assert not is_of_template(made, canonical(whole(KEPT)))


def test_the_head_pods_of_a_fleet_are_found() -> None:
    assert scaling_selector("mine") == LabelSelector({FLEET: "mine", "ray.io/node-type": "head"})


# --- what a fleet asks for ----------------------------------------------------------------------------------


@pytest.mark.rule("aibrix-3d-omitted")
@pytest.mark.parametrize(
    ("strategy", "rollout"),
    [
        (None, Rollout(5, "25%", "25%")),
        (Strategy(), Rollout(5, "25%", "25%")),
        (Strategy("RollingUpdate"), Rollout(5, "25%", "25%")),
        (Strategy("Recreate"), Rollout(5, "25%", "25%", recreate=True)),
        (Strategy(None, RollingUpdate()), Rollout(5, "25%", "25%")),
        (Strategy("", RollingUpdate(max_surge=2)), Rollout(5, 2, "25%")),
        (Strategy("RollingUpdate", RollingUpdate(max_unavailable="50%")), Rollout(5, "25%", "50%")),
        (rolling(0, 0), Rollout(5, 0, 0)),
    ],
)
@pytest.mark.parametrize("paused", [False, True])
def test_the_defaults_of_a_strategy_are_those_of_deployments(
    strategy: Strategy | None, rollout: Rollout, paused: bool
) -> None:
    spec = FleetSpec(template(), LabelSelector(LABELS), 5, strategy, paused=paused)
    assert rollout_of(spec) == evolve(rollout, paused=paused)


NO_AMOUNT = "expected a number of replicas or a share (`25%`), got"


@pytest.mark.rule("aibrix-bad-input")
@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        ({}, []),
        ({"replicas": 0, "revision_history_limit": 0, "strategy": rolling(0, "0%")}, []),
        ({"min_ready_seconds": 599, "strategy": Strategy("", RollingUpdate(1))}, []),
        ({"min_ready_seconds": 0, "progress_deadline_seconds": 1, "strategy": Strategy("Recreate")}, []),
        ({"replicas": -1}, ["spec.replicas: expected 0 or more, got -1"]),
        ({"replicas": -5, "strategy": rolling("25%", "50%")}, ["spec.replicas: expected 0 or more, got -5"]),
        (
            {"min_ready_seconds": -1, "revision_history_limit": -2},
            [
                "spec.minReadySeconds: expected 0 or more, got -1",
                "spec.revisionHistoryLimit: expected 0 or more, got -2",
            ],
        ),
        ({"progress_deadline_seconds": -1}, ["spec.progressDeadlineSeconds: expected 0 or more, got -1"]),
        (
            {"progress_deadline_seconds": 0},
            ["spec.progressDeadlineSeconds: must be greater than minReadySeconds"],
        ),
        ({"min_ready_seconds": 600}, ["spec.progressDeadlineSeconds: must be greater than minReadySeconds"]),
        (
            {"strategy": Strategy("BlueGreen", RollingUpdate("x"))},
            ["spec.strategy.type: expected RollingUpdate or Recreate, got 'BlueGreen'"],
        ),
        (
            {"strategy": Strategy("", RollingUpdate(None, "x"))},
            [f"spec.strategy.rollingUpdate.maxUnavailable: {NO_AMOUNT} 'x'"],
        ),
        (
            {"strategy": Strategy("Recreate", RollingUpdate("x"))},
            ["spec.strategy.rollingUpdate: must be absent if the type is Recreate"],
        ),
        (
            {"strategy": rolling("x", -1), "selector": LabelSelector()},
            [
                f"spec.strategy.rollingUpdate.maxSurge: {NO_AMOUNT} 'x'",
                "spec.strategy.rollingUpdate.maxUnavailable: expected 0 or more replicas, got -1",
                "spec.selector: an empty selector would select every cluster",
            ],
        ),
        (
            {"template": ClusterTemplate({"headGroupSpec": {}}, {"labels": None})},
            [
                "spec.template.metadata.labels: do not match spec.selector",
                "spec.template.spec.headGroupSpec: is missing",
            ],
        ),
    ],
)
def test_every_fault_of_a_fleet_is_reported_with_its_field(spec: dict[str, Any], faults: list[str]) -> None:
    assert [str(fault) for fault in faults_of(fleet(**spec))] == faults


def test_a_name_that_becomes_a_label_has_a_maximum_length() -> None:
    text = "more than 63 characters, and it becomes a label"
    assert list(faults_of(fleet(name="f" * 63))) == []
    assert list(faults_of(fleet(name="f" * 64))) == [f"metadata.name: {text}"]


def test_a_selector_may_consist_of_expressions_alone() -> None:
    selector = structure(LabelSelector, {"matchExpressions": [{"key": "a", "operator": "Exists"}]})
    assert selector_faults(selector, {"labels": {"a": "b"}}) == []
    assert selector_faults(selector, {}) == ["spec.template.metadata.labels: do not match spec.selector"]


def test_an_expression_that_no_selector_may_have_is_a_fault_and_not_an_error() -> None:
    selector = structure(LabelSelector, {"matchExpressions": [{"key": "a", "operator": "In"}]})
    (fault,) = selector_faults(selector, {"labels": {"a": "b"}})
    assert (
        fault
        == "spec.selector.matchExpressions: values: for 'in', 'notin' operators, values set can't be empty"
    )
