"""Deployments, ReplicaSets, ReplicationControllers, DaemonSets and StatefulSets: what they have to be."""

from typing import Any

import pytest

from tests.embedded.api_client import CONFIG_MAPS, Api
from tests.embedded.workload_bodies import (
    ABSENT,
    LABELS,
    TEMPLATE,
    body,
    causes_of_change,
    causes_of_create,
    causes_of_status,
    edited,
    path_of,
)

LASTING = ("deployments", "replicasets", "replicationcontrollers", "daemonsets", "statefulsets")
SELECTED = ("deployments", "replicasets", "statefulsets")
MISMATCH = "Invalid spec.template.metadata.labels"
ROLLING = "spec.strategy.rollingUpdate"
DAEMON = "spec.updateStrategy.rollingUpdate"
RETENTION = "spec.persistentVolumeClaimRetentionPolicy"


def made(api: Api, plural: str, **changes: Any) -> dict[str, Any]:
    return api.ok("POST", path_of(plural), body(plural, changes))


# --- selectors and templates ------------------------------------------------------------------


@pytest.mark.parametrize("plural", SELECTED)
@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (ABSENT, [MISMATCH, "Required spec.selector"]),
        ({}, ["Invalid spec.selector"]),
        ({"matchLabels": {"app": "db"}}, [MISMATCH]),
        ({"matchLabels": {"app": "x y"}}, ["Invalid spec.selector", "Invalid spec.selector.matchLabels"]),
        (
            {"matchExpressions": [{"key": "app", "operator": "In"}]},
            ["Invalid spec.selector", "Required spec.selector.matchExpressions[0].values"],
        ),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, []),
    ],
)
def test_a_selector_is_required_and_has_to_select_the_pods(
    api: Api, plural: str, selector: Any, wanted: list[str]
) -> None:
    assert causes_of_create(api, plural, {"spec.selector": selector}) == wanted


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (ABSENT, [MISMATCH]),
        ({}, ["Invalid spec.selector"]),
        ({"matchLabels": {"app": "x y"}}, ["Invalid spec.selector.matchLabels"]),
    ],
)
def test_a_daemon_set_judges_its_selector_in_its_own_way(api: Api, selector: Any, wanted: list[str]) -> None:
    assert causes_of_create(api, "daemonsets", {"spec.selector": selector}) == wanted


@pytest.mark.parametrize("plural", SELECTED)
def test_the_template_is_not_looked_at_while_the_selector_is_unclear(api: Api, plural: str) -> None:
    unclear = {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]}
    changes = {"spec.selector": unclear, "spec.template.spec.containers": []}
    wanted = ["Forbidden spec.selector.matchExpressions[0].values", "Invalid spec.selector"]
    assert causes_of_create(api, plural, changes) == wanted


@pytest.mark.parametrize("plural", LASTING)
@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"restartPolicy": "Never"}, ["NotSupported spec.template.spec.restartPolicy"]),
        ({"activeDeadlineSeconds": 9}, ["Forbidden spec.template.spec.activeDeadlineSeconds"]),
        ({"containers": []}, ["Required spec.template.spec.containers"]),
    ],
)
def test_pods_that_run_for_ever_cannot_end(
    api: Api, plural: str, changes: dict[str, Any], wanted: list[str]
) -> None:
    changes = {f"spec.template.spec.{name}": value for name, value in changes.items()}
    assert causes_of_create(api, plural, changes) == wanted


@pytest.mark.parametrize("plural", SELECTED)
def test_a_missing_part_is_an_empty_one_whose_fields_are_missing(api: Api, plural: str) -> None:
    wanted = [MISMATCH, "Required spec.selector", "Required spec.template.spec.containers"]
    assert causes_of_create(api, plural, {"spec": ABSENT}) == wanted


@pytest.mark.parametrize(
    ("plural", "name"),
    [
        *((plural, "minReadySeconds") for plural in LASTING),
        *((plural, "replicas") for plural in LASTING if plural != "daemonsets"),
    ],
)
def test_counts_are_not_negative(api: Api, plural: str, name: str) -> None:
    assert causes_of_create(api, plural, {f"spec.{name}": -1}) == [f"Invalid spec.{name}"]
    assert causes_of_change(api, plural, {}, {f"spec.{name}": -1}) == [f"Invalid spec.{name}"]


@pytest.mark.parametrize("plural", ["deployments", "daemonsets"])
def test_a_limit_of_revisions_is_not_negative(api: Api, plural: str) -> None:
    assert causes_of_create(api, plural, {"spec.revisionHistoryLimit": -1}) == [
        "Invalid spec.revisionHistoryLimit"
    ]
    assert causes_of_create(api, plural, {"spec.revisionHistoryLimit": 0}) == []


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
def test_a_selector_is_immutable(api: Api, plural: str) -> None:
    changes = {"spec.selector.matchLabels": {"app": "db"}, "spec.template.metadata.labels": {"app": "db"}}
    assert causes_of_change(api, plural, {}, changes) == ["Invalid spec.selector"]


def test_a_replication_controller_takes_selector_and_labels_from_its_template(api: Api) -> None:
    changes: dict[str, Any] = {"spec.selector": ABSENT, "metadata.labels": ABSENT}
    controller = made(api, "replicationcontrollers", **changes)
    assert (controller["spec"]["selector"], controller["metadata"]["labels"]) == (LABELS, LABELS)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"spec.template": ABSENT}, ["Required spec.template"]),
        ({"spec.selector": ABSENT, "spec.template.metadata": ABSENT}, ["Required spec.selector"]),
        ({"spec.selector": {"app": "db"}}, [MISMATCH]),
        ({"spec.template.metadata.labels": {"app": "web", "a": "b"}}, []),
    ],
)
def test_a_replication_controller_needs_a_template_that_it_selects(
    api: Api, changes: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_create(api, "replicationcontrollers", changes) == wanted


def test_a_replication_controller_may_change_its_selector(api: Api) -> None:
    changes = {"spec.selector": {"app": "db"}, "spec.template.metadata.labels": {"app": "db"}}
    assert causes_of_change(api, "replicationcontrollers", {}, changes) == []


# --- strategies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ({"type": ""}, []),
        ({"type": "Recreate"}, []),
        ({"type": "Recreate", "rollingUpdate": {}}, [f"Forbidden {ROLLING}"]),
        ({"type": "Odd"}, ["NotSupported spec.strategy"]),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}, [f"Invalid {ROLLING}.maxUnavailable"]),
        (
            {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "00%"}},
            [f"Invalid {ROLLING}.maxUnavailable"],
        ),
        ({"rollingUpdate": {"maxSurge": "0"}}, [f"Invalid {ROLLING}.maxSurge"]),
        ({"rollingUpdate": {"maxSurge": -1}}, [f"Invalid {ROLLING}.maxSurge"]),
        ({"rollingUpdate": {"maxSurge": "300%"}}, []),
        ({"rollingUpdate": {"maxUnavailable": "101%"}}, [f"Invalid {ROLLING}.maxUnavailable"]),
        ({"rollingUpdate": {"maxUnavailable": "a%"}}, [f"Invalid {ROLLING}.maxUnavailable"]),
    ],
)
def test_the_strategy_of_a_deployment_is_one_that_can_go_on(
    api: Api, strategy: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_create(api, "deployments", {"spec.strategy": strategy}) == wanted


@pytest.mark.parametrize(
    ("deadline", "ready", "wanted"),
    [(10, 9, []), (9, 9, ["Invalid"]), (0, 0, ["Invalid"]), (-1, 0, ["Invalid", "Invalid"])],
)
def test_a_deployment_waits_longer_than_its_pods_take(
    api: Api, deadline: int, ready: int, wanted: list[str]
) -> None:
    changes = {"spec.progressDeadlineSeconds": deadline, "spec.minReadySeconds": ready}
    assert causes_of_create(api, "deployments", changes) == [
        f"{reason} spec.progressDeadlineSeconds" for reason in wanted
    ]


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 80}}, []),
        ({"type": "Odd"}, ["NotSupported spec.updateStrategy"]),
        ({"rollingUpdate": {"maxUnavailable": 0}}, [f"Required {DAEMON}.maxUnavailable"]),
        ({"rollingUpdate": {"maxSurge": "25%"}}, [f"Invalid {DAEMON}.maxSurge"]),
        ({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}}, []),
        ({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "101%"}}, [f"Invalid {DAEMON}.maxSurge"]),
        ({"rollingUpdate": {"maxUnavailable": "101%"}}, [f"Invalid {DAEMON}.maxUnavailable"]),
    ],
)
def test_a_daemon_set_replaces_pods_before_or_after_not_both(
    api: Api, strategy: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_create(api, "daemonsets", {"spec.updateStrategy": strategy}) == wanted


# --- generations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plural", "change", "generation"),
    [
        ("deployments", {"metadata.annotations": {"a": "b"}}, 2),
        ("deployments", {"metadata.labels": {"a": "b"}}, 1),
        ("deployments", {"metadata.annotations": {"a": "b"}, "spec.replicas": 3}, 2),
        ("replicasets", {"metadata.annotations": {"a": "b"}}, 1),
        ("replicasets", {"spec.replicas": 3}, 2),
    ],
)
def test_the_generation_follows_the_spec_and_with_deployments_the_annotations(
    api: Api, plural: str, change: dict[str, Any], generation: int
) -> None:
    changed = api.ok("PUT", f"{path_of(plural)}/a", edited(made(api, plural), change))
    assert changed["metadata"]["generation"] == generation


def test_a_write_of_the_status_changes_neither_generation_nor_labels_of_a_deployment(api: Api) -> None:
    change = {"metadata.annotations": {"a": "b"}, "metadata.labels": {"a": "b"}}
    first = made(api, "deployments")
    changed = api.ok("PUT", f"{path_of('deployments')}/a/status", edited(first, change))["metadata"]
    assert (changed["generation"], changed["labels"], changed["annotations"]) == (1, {"l": "1"}, {"a": "b"})


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({"spec.template.spec.nodeSelector": {"a": "b"}}, "2"),
        ({"spec.minReadySeconds": 3}, "1"),
        ({"metadata.annotations": {}}, "1"),
        ({"metadata.annotations": {"deprecated.daemonset.template.generation": "9"}}, "1"),
    ],
)
def test_a_daemon_set_counts_its_templates_in_an_annotation(
    api: Api, change: dict[str, Any], count: str
) -> None:
    first = made(api, "daemonsets")
    counted = "deprecated.daemonset.template.generation"
    assert first["metadata"]["annotations"] == {counted: "1"}
    changed = api.ok("PUT", f"{path_of('daemonsets')}/a", edited(first, change))
    assert changed["metadata"]["annotations"] == {counted: count}


def test_a_new_daemon_set_keeps_the_count_that_it_brings(api: Api) -> None:
    annotations = {"deprecated.daemonset.template.generation": "5"}
    assert (
        made(api, "daemonsets", **{"metadata.annotations": annotations})["metadata"]["annotations"]
        == annotations
    )


# --- StatefulSets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"spec.podManagementPolicy": "Parallel"}, []),
        ({"spec.podManagementPolicy": "Odd"}, ["Invalid spec.podManagementPolicy"]),
        ({"spec.updateStrategy": {"type": "Odd"}}, ["Invalid spec.updateStrategy"]),
        ({"spec.updateStrategy": {"type": "OnDelete"}}, []),
        (
            {"spec.updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}},
            ["Invalid spec.updateStrategy.rollingUpdate"],
        ),
        (
            {"spec.updateStrategy.rollingUpdate.partition": -1},
            ["Invalid spec.updateStrategy.rollingUpdate.partition"],
        ),
        ({RETENTION: {"whenDeleted": "Odd"}}, [f"NotSupported {RETENTION}.whenDeleted"]),
        ({RETENTION: {"whenScaled": "Odd"}}, [f"NotSupported {RETENTION}.whenScaled"]),
        ({"spec.ordinals": {"start": -1}}, ["Invalid spec.ordinals.start"]),
        ({"spec.serviceName": "-x"}, ["Invalid spec.serviceName"]),
        ({"spec.serviceName": "a.b"}, ["Invalid spec.serviceName"]),
        ({"spec.serviceName": ABSENT}, []),
        ({"metadata.name": "a.b"}, ["Invalid metadata.name"]),
    ],
)
def test_a_stateful_set_is_checked_field_by_field(
    api: Api, changes: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_create(api, "statefulsets", changes) == wanted


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (ABSENT, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ({"rollingUpdate": {"partition": 2}}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}),
        ({"type": "RollingUpdate"}, {"type": "RollingUpdate"}),
        (
            {"rollingUpdate": {"maxUnavailable": 2}},
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        ),
    ],
    ids=["absent", "partition", "only a type", "a field of a disabled feature"],
)
def test_the_strategy_of_a_stateful_set_is_completed(api: Api, strategy: Any, wanted: dict[str, Any]) -> None:
    spec = made(api, "statefulsets", **{"spec.updateStrategy": strategy})["spec"]
    assert spec["updateStrategy"] == wanted


def test_each_half_of_a_retention_policy_has_a_default(api: Api) -> None:
    spec = made(api, "statefulsets", **{RETENTION: {"whenScaled": "Delete"}})["spec"]
    kept = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == kept


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"spec.serviceName": "other"}, ["Forbidden spec"]),
        ({"spec.podManagementPolicy": "Parallel"}, ["Forbidden spec"]),
        ({"spec.volumeClaimTemplates": [{"metadata": {"name": "d"}}]}, ["Forbidden spec"]),
        ({"spec.ordinals": {"start": 3}}, []),
        ({"spec.minReadySeconds": 3}, []),
        ({"spec.revisionHistoryLimit": 3}, []),
        ({RETENTION: {"whenDeleted": "Delete"}}, []),
        ({"spec.updateStrategy": {"type": "OnDelete"}}, []),
        (
            {"spec.template.spec.containers": [{"name": "main"}]},
            ["Required spec.template.spec.containers[0].image"],
        ),
    ],
)
def test_a_change_to_a_stateful_set_is_limited_to_some_fields(
    api: Api, change: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_change(api, "statefulsets", {}, change) == wanted


def test_a_negative_limit_of_revisions_of_a_stateful_set_is_only_warned_of(api: Api) -> None:
    answer = api.send(
        "POST", path_of("statefulsets"), body("statefulsets", {"spec.revisionHistoryLimit": -1})
    )
    assert (answer.status, "spec.revisionHistoryLimit" in answer.headers["warning"]) == (201, True)
    changed = edited(answer.body, {"metadata.labels": {"a": "b"}})
    assert "warning" in api.send("PUT", f"{path_of('statefulsets')}/a", changed).headers


def test_the_claims_of_a_stateful_set_are_claims_whatever_they_say(api: Api) -> None:
    claim = {
        "kind": "Odd",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    (made_claim,) = made(api, "statefulsets", **{"spec.volumeClaimTemplates": [claim]})["spec"][
        "volumeClaimTemplates"
    ]
    assert (made_claim["apiVersion"], made_claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert (made_claim["spec"]["volumeMode"], made_claim["status"]) == ("Filesystem", {"phase": "Pending"})


# --- status -----------------------------------------------------------------------------------


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "replicationcontrollers", "statefulsets"])
@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}, []),
        ({"replicas": 1, "readyReplicas": 2}, ["Invalid status.readyReplicas"]),
        ({"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}, ["Invalid status.availableReplicas"]),
        ({"observedGeneration": -1}, ["Invalid status.observedGeneration"]),
    ],
)
def test_the_counts_of_a_status_fit_together(
    api: Api, plural: str, status: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_status(api, plural, {}, status) == wanted


@pytest.mark.parametrize(
    ("plural", "name"),
    [
        ("deployments", "updatedReplicas"),
        ("replicasets", "fullyLabeledReplicas"),
        ("replicationcontrollers", "fullyLabeledReplicas"),
        ("statefulsets", "currentReplicas"),
        ("statefulsets", "updatedReplicas"),
    ],
)
def test_each_count_of_replicas_is_within_them(api: Api, plural: str, name: str) -> None:
    assert causes_of_status(api, plural, {}, {"replicas": 1, name: 2}) == [f"Invalid status.{name}"]


def test_the_counts_of_a_daemon_set_are_not_negative(api: Api) -> None:
    status = {
        "currentNumberScheduled": -1,
        "desiredNumberScheduled": 1,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "numberUnavailable": -1,
    }
    assert causes_of_status(api, "daemonsets", {}, status) == [
        "Invalid status.currentNumberScheduled",
        "Invalid status.numberUnavailable",
    ]


@pytest.mark.parametrize("plural", ["deployments", "statefulsets", "daemonsets"])
@pytest.mark.parametrize(("count", "wanted"), [(2, []), (1, ["Invalid status.collisionCount"])])
def test_a_count_of_collisions_only_grows(api: Api, plural: str, count: int, wanted: list[str]) -> None:
    assert causes_of_status(api, plural, {"collisionCount": 2}, {"collisionCount": count}) == wanted


# --- warnings and scale -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plural", "warned"),
    [("deployments", True), ("replicasets", True), ("replicationcontrollers", True), ("daemonsets", False)],
)
def test_a_new_workload_with_a_name_that_no_pod_can_bear_is_warned_of(
    api: Api, plural: str, warned: bool
) -> None:
    answer = api.send("POST", path_of(plural), body(plural, name="a.b"))
    assert (answer.status, "warning" in answer.headers) == (201, warned)
    changed = edited(answer.body, {"spec.minReadySeconds": 1})
    assert "warning" not in api.send("PUT", f"{path_of(plural)}/a.b", changed).headers


def test_a_replication_controller_is_scaled_and_selected_by_its_labels(api: Api) -> None:
    made(api, "replicationcontrollers")
    scale = api.merge(f"{path_of('replicationcontrollers')}/a/scale", {"spec": {"replicas": 4}})
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 0, "selector": "app=web"})
    assert api.ok("GET", f"{path_of('replicationcontrollers')}/a")["spec"]["replicas"] == 4


def test_a_deleted_replication_controller_leaves_what_it_owns_and_a_replica_set_does_not(api: Api) -> None:
    for plural, kind, left in (
        ("replicationcontrollers", "ReplicationController", True),
        ("replicasets", "ReplicaSet", False),
    ):
        owner = made(api, plural)
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": kind,
            "name": "a",
            "uid": owner["metadata"]["uid"],
        }
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        api.ok("POST", CONFIG_MAPS, owned)
        answer = api.send("DELETE", f"{path_of(plural)}/a")
        assert (answer.status, "warning" in answer.headers) == (200, False)
        api.server.settle()
        assert (not api.gone(f"{CONFIG_MAPS}/owned")) is left
        if left:
            api.ok("DELETE", f"{CONFIG_MAPS}/owned")


def test_kubectl_shows_a_replication_controller_with_its_selector(api: Api) -> None:
    made(api, "replicationcontrollers", **{"spec.template": TEMPLATE})
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = api.send("GET", path_of("replicationcontrollers"), accept=accept).body
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"]
    assert table["rows"][0]["cells"][:4] == ["a", 1, 0, 0]
    assert table["rows"][0]["cells"][5:] == ["main", "img:1", "app=web"]
