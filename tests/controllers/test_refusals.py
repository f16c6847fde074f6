"""What the bundled controllers refuse at admission: exactly what they would leave alone for a fault."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controllers import autoscaling, fleets, registrysecrets, workergroups
from controllers.refusals import refusal_of
from reconcile import Controller, kind_of
from reconcile.webhooks import Refusal
from reconcile.webhooks.admission_calls import admit_refuses

CONTROLLERS = [
    workergroups.controller,
    *fleets.controllers,
    autoscaling.controller,
    registrysecrets.controller,
]
SAMPLES = Path(workergroups.__file__).parents[1]


def sample(kind: str) -> dict[str, Any]:
    """The object of a kind in the samples."""
    for path in sorted(SAMPLES.glob("*/sample.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document["kind"] == kind:
                found: dict[str, Any] = document
                return found
    raise LookupError(kind)


def refusals(controller: Controller[Any], obj: dict[str, Any], old: Any = None) -> list[tuple[str, str]]:
    """Field and message of each cause of the answer to a review."""
    (admission,) = controller.admission
    resource = kind_of(admission.kind).resource
    operation = "CREATE" if old is None else "UPDATE"
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    request = {"uid": "1", "operation": operation, "kind": kind, "object": obj, "oldObject": old}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = msgspec.json.decode(admit_refuses(admission, msgspec.json.encode(review)))["response"]
    if response["allowed"]:
        return []
    return [(cause["field"], cause["message"]) for cause in response["status"]["details"]["causes"]]


def controller_of(kind: str) -> Controller[Any]:
    return next(one for one in CONTROLLERS if one.resource.kind == kind)


@pytest.mark.parametrize("kind", ["RayCluster", "RayClusterFleet", "PodAutoscaler", "KuberoPipeline"])
def test_the_sample_of_a_bundled_kind_is_admitted(kind: str) -> None:
    assert refusals(controller_of(kind), sample(kind)) == []


@pytest.mark.parametrize(
    ("kind", "path", "value", "field"),
    [
        ("RayCluster", ["spec", "workerGroupSpecs", 0, "replicas"], -1, "spec.workerGroupSpecs[{}].replicas"),
        ("RayCluster", ["spec", "headGroupSpec", "template", "spec", "containers"], [], "spec.headGroupSpec"),
        ("RayClusterFleet", ["spec", "replicas"], -1, "spec.replicas"),
        ("PodAutoscaler", ["spec", "maxReplicas"], 0, "spec.maxReplicas"),
        ("PodAutoscaler", ["spec", "panicWindowSeconds"], 10**9, "spec.panicWindowSeconds"),
        ("KuberoPipeline", ["spec", "removal"], "everything", "spec.removal"),
    ],
)
def test_a_fault_is_refused_with_the_path_of_its_field(
    kind: str, path: list[Any], value: Any, field: str
) -> None:
    obj = sample(kind)
    place = obj
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (found,) = refusals(controller_of(kind), obj)
    group = (obj["spec"].get("workerGroupSpecs") or [{}])[0].get("groupName")
    assert found[0].startswith(field.format(group))
    assert found[1]


def test_a_cluster_that_another_operator_keeps_is_not_judged() -> None:
    cluster = sample("RayCluster")
    cluster["spec"] |= {"managedBy": "kueue.x-k8s.io/multikueue", "replicas": -1}
    assert refusals(controller_of("RayCluster"), cluster) == []


def test_a_finalizer_leaves_an_object_that_would_be_refused_today() -> None:
    old = sample("RayClusterFleet")
    old["spec"]["replicas"] = -1
    old["metadata"]["finalizers"] = ["example.com/a"]
    new = {**old, "metadata": {**old["metadata"], "finalizers": []}}
    assert refusals(controller_of("RayClusterFleet"), new, old) == []


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("spec.replicas: must not be negative", Refusal("must not be negative", "spec.replicas")),
        ("spec.minReplicas is below 0", Refusal("is below 0", "spec.minReplicas")),
        ("spec.groups[a b].size: is odd", Refusal("is odd", "spec.groups[a b].size")),
        ("metadata.annotations.ray.io/x: says no", Refusal("says no", "metadata.annotations.ray.io/x")),
        ("specific words", Refusal("specific words")),
        ("metadata.labels.a..b: is odd", Refusal("is odd", "metadata.labels.a..b")),
        ("no field: is named", Refusal("no field: is named")),
        # A key that a client made up; each dot must not double the time.
        (f"spec.labels{'.a' * 1000}@: is odd", Refusal(f"spec.labels{'.a' * 1000}@: is odd")),
    ],
)
def test_the_path_at_the_beginning_of_a_fault_becomes_the_field(text: str, refusal: Refusal) -> None:
    assert refusal_of(text) == refusal
