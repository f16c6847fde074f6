"""The shapes of the built-in kinds."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconcile.embedded.kinds import BUILT_IN
from reconcile.embedded.schema import compile_schema
from reconcile.embedded.schema.builtin_schemas import schema_for

ROOT = Path(__file__).parents[2]
PUBLISHED = [kind for kind in BUILT_IN if kind.openapi is None]
KINDS = [(kind.group, version, kind.name) for kind in PUBLISHED for version in kind.versions]
POD = compile_schema(schema_for("", "v1", "Pod"), unique_lists=False)


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "app", "image": "app:1", **(container or {})}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": containers, **spec},
    }


def faults(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause.reason, cause.field) for cause in POD.validate(obj)]


@pytest.mark.parametrize(("group", "version", "kind"), KINDS)
def test_every_kind_has_type_metadata_and_its_own_fields(group: str, version: str, kind: str) -> None:
    openapi = schema_for(group, version, kind)
    assert openapi["type"] == "object"
    assert {"apiVersion", "kind", "metadata"} < openapi["properties"].keys()
    schema = compile_schema(openapi, unique_lists=False)
    assert schema.prune({"metadata": {}, "bogus": 1}) == ["bogus"]
    assert schema.unevaluated_rules == ()


def test_the_shapes_are_those_of_the_client_library() -> None:
    check = subprocess.run(
        [sys.executable, ROOT / "tools" / "builtin_types.py", "--check"], capture_output=True, text=True
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_an_unknown_kind_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="v1 Gadget"):
        schema_for("", "v1", "Gadget")


def test_all_fields_of_a_complete_pod_are_known() -> None:
    obj = pod(
        {
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "envFrom": [{"secretRef": {"name": "s"}}],
            "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsUser": 2**32},
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
        },
        volumes=[{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}],
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]}
        },
        tolerations=[{"operator": "Exists", "tolerationSeconds": 30}],
        nodeSelector={"a": "b"},
        terminationGracePeriodSeconds=30,
    )
    obj["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert POD.prune(obj) == []
    assert faults(obj) == []


def test_a_quantity_may_be_a_number_and_becomes_a_string() -> None:
    obj = pod({"resources": {"limits": {"cpu": 1, "memory": 1.5, "gpu": "2"}}})
    assert faults(obj) == []
    POD.default(obj)
    limits = obj["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "1", "memory": "1500m", "gpu": "2"}


def test_a_null_equals_an_absent_field() -> None:
    obj = pod({"env": None}, nodeName=None)
    obj["metadata"]["creationTimestamp"] = None
    POD.prune(obj)
    POD.default(obj)
    plain = pod()
    POD.default(plain)
    assert obj == plain


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (pod({"name": 1}), [("FieldValueTypeInvalid", "spec.containers[0].name")]),
        (
            pod({"ports": [{"containerPort": "80"}]}),
            [("FieldValueTypeInvalid", "spec.containers[0].ports[0].containerPort")],
        ),
        (pod({"ports": [{}]}), [("FieldValueRequired", "spec.containers[0].ports[0].containerPort")]),
        (pod({"resources": {"limits": {"cpu": True}}}), [("FieldValueInvalid", "<nil>")]),
        (pod(hostNetwork="yes"), [("FieldValueTypeInvalid", "spec.hostNetwork")]),
        (pod(priority=2**31), [("FieldValueTypeInvalid", "spec.priority")]),
        ({"spec": {}}, [("FieldValueRequired", "spec.containers")]),
        ({**pod(), "metadata": {"labels": {"a": 1}}}, [("FieldValueTypeInvalid", "metadata.labels.a")]),
    ],
)
def test_wrong_types_and_missing_fields_are_faults(
    obj: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert faults(obj)[: len(expected)] == expected


def test_a_status_may_omit_required_fields() -> None:
    assert faults({**pod(), "status": {"containerStatuses": [{"name": "app", "ready": True}]}}) == []


def test_a_micro_time_has_a_fraction_and_a_time_need_not() -> None:
    lease = compile_schema(schema_for("coordination.k8s.io", "v1", "Lease"))
    assert lease.validate({"spec": {"renewTime": "2026-01-01T00:00:05.000000Z"}}) == []
    assert lease.validate({"spec": {"renewTime": "2026-01-01T00:00:05Z"}}) != []


def test_secret_data_is_base64() -> None:
    secret = compile_schema(schema_for("", "v1", "Secret"))
    assert secret.validate({"data": {"k": "dg=="}}) == []
    assert secret.validate({"data": {"k": "%"}}) != []
