"""What a change of a definition's schema means for the objects that are stored."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, TypeAlias

import pytest
import yaml
from attrs import frozen
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from reconcile.embedded.schema import check_structural, compile_schema
from reconcile.models.definition_changes import definition_changes
from reconcile.models.schema_changes import schema_changes
from tests.controllers.world import SAMPLES
from tests.helpers.definitions import INTEGER, STRING
from tests.models.changing_schemas import changed, objects_of_schemas, shown, values_of

Schema: TypeAlias = dict[str, Any]
RULES, PRESERVE = "x-kubernetes-validations", "x-kubernetes-preserve-unknown-fields"
KEYS, LIST_TYPE = "x-kubernetes-list-map-keys", "x-kubernetes-list-type"
RAY, AIBRIX = "kuberay/crd-rayclusters", "aibrix/crd-podautoscalers"
MACHINES, KUBERO = "cluster-api/crd-machinedeployments", "kubero/crd-kuberopipelines"


# --- a law ----------------------------------------------------------------------------------------------


@pytest.mark.rule("definitions-compared")
@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_an_object_that_the_old_schema_accepts_fits_a_new_one_without_objects_to_read(
    data: st.DataObject,
) -> None:
    old = data.draw(objects_of_schemas())
    new = data.draw(changed(old))
    assume(old != new)
    if any(change.proof != "none" for change in schema_changes(old, new)):
        event("objects decide")
        return
    assume(not check_structural(old, "") and not check_structural(new, ""))
    obj = shown(old, data.draw(values_of(old)))
    if obj is not None:
        event("all objects fit")
        assert_fits(new, obj)


def assert_fits(schema: Mapping[str, Any], obj: dict[str, Any]) -> None:
    """The server with this schema accepts the object and keeps all its fields as they are."""
    body, compiled = deepcopy(obj), compile_schema(schema)
    assert compiled.prune(body) == []
    assert body == obj
    compiled.default(body)
    assert compiled.validate(body) == []
    assert keeps(obj, body)


def keeps(before: Any, after: Any) -> bool:
    """Whether nothing is lost and nothing has another value; more may be there."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            name in after and keeps(value, after[name]) for name, value in before.items()
        )
    if isinstance(before, list):
        return isinstance(after, list) and len(before) == len(after) and all(map(keeps, before, after))
    return bool(before == after)


# --- definitions of users -------------------------------------------------------------------------------


@cache
def _read(name: str) -> Schema:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    body: Schema = next(yaml.load_all((SAMPLES / f"{name}.yaml").read_text(), loader))
    return body


def sample(name: str) -> Schema:
    return deepcopy(_read(name))


def schema_of(body: Schema, version: str) -> Schema:
    return next(v["schema"]["openAPIV3Schema"] for v in body["spec"]["versions"] if v["name"] == version)


def at(schema: Schema, path: str) -> Schema:
    for step in path.split("."):
        schema = schema["properties"][step.removesuffix("[]")]
        schema = schema["items"] if step.endswith("[]") else schema
    return schema


def sets(path: str, **words: Any) -> Callable[[Schema], None]:
    return lambda schema: at(schema, path).update(words)


def drops(path: str, *words: str) -> Callable[[Schema], None]:
    def change(schema: Schema) -> None:
        for word in words:
            del at(schema, path)[word]

    return change


def adds(path: str, name: str, member: Schema, *, required: bool = False) -> Callable[[Schema], None]:
    def change(schema: Schema) -> None:
        inner = at(schema, path)
        inner.setdefault("properties", {})[name] = member
        if required:
            inner["required"] = [*inner.get("required", ()), name]

    return change


def removes(path: str, name: str) -> Callable[[Schema], None]:
    def change(schema: Schema) -> None:
        del at(schema, path)["properties"][name]

    return change


def requires(path: str, *names: str) -> Callable[[Schema], None]:
    return lambda schema: at(schema, path).update(required=[*at(schema, path).get("required", ()), *names])


def frees(path: str, name: str) -> Callable[[Schema], None]:
    return lambda schema: at(schema, path)["required"].remove(name)


@frozen
class Case:
    """A change of a version of a definition of users, to other words or to the schema of another version.

    `at` is the path that is reported, and `obj` is an object that the old schema accepts. A narrowing change
    does not let it stay as it is, an additive one does.
    """

    file: str
    version: str
    change: Callable[[Schema], None] | str
    at: str
    obj: Mapping[str, Any]

    @property
    def schemas(self) -> tuple[Schema, Schema]:
        body = sample(self.file)
        old = schema_of(body, self.version)
        if isinstance(self.change, str):
            return old, schema_of(body, self.change)
        new = deepcopy(old)
        self.change(new)
        return old, new


def of_sample(name: str, **spec: Any) -> Schema:
    body = sample(name)
    return {**body, "spec": {**body["spec"], **spec}}


def machines(**spec: Any) -> Schema:
    ref = {"apiGroup": "i.example.com", "kind": "Machine", "name": "m"}
    pod = {"clusterName": "edge", "bootstrap": {}, "infrastructureRef": ref, "version": "v1.30.0"}
    selector = {"matchLabels": {"pool": "a"}}
    template = {"metadata": {"labels": {"pool": "a"}}, "spec": pod}
    return {
        "spec": {"clusterName": "edge", "replicas": 3, "selector": selector, "template": template, **spec}
    }


EXACT = {"metricSourceType": "pod", "targetMetric": "qps", "targetValue": "10"}
SCALER = of_sample("aibrix/kpa")
TWO_METRICS = of_sample("aibrix/kpa", metricsSources=[EXACT, EXACT])
PIPELINE = of_sample("kubero/kuberopipeline")
CLUSTER = of_sample("kuberay/ray-cluster.sample", managedBy="ray.io/kuberay-operator")
OLD_CLUSTER = of_sample("kuberay/ray-cluster.sample")
OLD_REF = {"apiVersion": "i.example.com/v1", "kind": "Machine", "name": "m"}
OLD_MACHINES = machines(
    progressDeadlineSeconds=600,
    template={"spec": {"clusterName": "edge", "bootstrap": {}, "infrastructureRef": OLD_REF}},
)


def of_strings(schema: Schema) -> None:
    adds("status", "desiredCPU", {"type": "string"})(schema)


def default_under_a_rule(schema: Schema) -> None:
    adds("spec", "paused", {"type": "boolean", "default": True})(schema)
    sets("spec", **{RULES: [{"rule": "!has(self.paused)"}]})(schema)


NARROWING = {
    "the fields of an older version (KubeRay)": Case(RAY, "v1", "v1alpha1", "spec.managedBy", CLUSTER),
    "a newer version of another shape (Cluster API)": Case(
        MACHINES, "v1beta1", "v1beta2", "spec.progressDeadlineSeconds", OLD_MACHINES
    ),
    "a field removed": Case(
        AIBRIX, "v1alpha1", removes("spec", "panicWindowSeconds"), "spec.panicWindowSeconds", SCALER
    ),
    "a value of an enum removed": Case(
        AIBRIX, "v1alpha1", sets("spec.scalingStrategy", enum=["HPA"]), "spec.scalingStrategy", SCALER
    ),
    "an enum added": Case(RAY, "v1", sets("spec.rayVersion", enum=["3"]), "spec.rayVersion", CLUSTER),
    "a maximum lowered": Case(
        AIBRIX,
        "v1alpha1",
        sets("spec.observeWindowSeconds", maximum=300),
        "spec.observeWindowSeconds",
        SCALER,
    ),
    "a minimum excluded": Case(
        MACHINES,
        "v1beta2",
        sets("spec.replicas", minimum=3, exclusiveMinimum=True),
        "spec.replicas",
        machines(),
    ),
    "a field required": Case(AIBRIX, "v1alpha1", requires("spec", "schedules"), "spec.schedules", SCALER),
    "a new field required": Case(
        MACHINES, "v1beta2", adds("spec", "owner", STRING, required=True), "spec.owner", machines()
    ),
    "more items": Case(
        AIBRIX, "v1alpha1", sets("spec.metricsSources", minItems=2), "spec.metricsSources", SCALER
    ),
    "keys for the items of a list": Case(
        AIBRIX,
        "v1alpha1",
        sets("spec.metricsSources", **{KEYS: ["metricSourceType"], LIST_TYPE: "map"}),
        "spec.metricsSources",
        TWO_METRICS,
    ),
    "unknown fields dropped": Case(KUBERO, "v1alpha1", drops("spec", PRESERVE), "spec", PIPELINE),
    "a type for what was any value": Case(
        KUBERO, "v1alpha1", adds("spec", "replicaCount", STRING), "spec.replicaCount", PIPELINE
    ),
    "another type": Case(
        MACHINES, "v1beta2", sets("spec.replicas", type="string"), "spec.replicas", machines()
    ),
    "a pattern": Case(
        MACHINES, "v1beta2", sets("spec.clusterName", pattern="^prod-"), "spec.clusterName", machines()
    ),
    "a rule": Case(
        MACHINES, "v1beta2", sets("spec", **{RULES: [{"rule": "self.replicas > 3"}]}), "spec", machines()
    ),
    "null forbidden": Case(
        RAY,
        "v1",
        drops("status.lastUpdateTime", "nullable"),
        "status.lastUpdateTime",
        {**CLUSTER, "status": {"lastUpdateTime": None}},
    ),
    "a map closed": Case(
        MACHINES,
        "v1beta2",
        drops("spec.selector.matchLabels", "additionalProperties"),
        "spec.selector.matchLabels",
        machines(),
    ),
    "shorter text": Case(
        MACHINES, "v1beta2", sets("spec.clusterName", maxLength=3), "spec.clusterName", machines()
    ),
    "numbers no longer in place of text": Case(
        RAY, "v1", of_strings, "status.desiredCPU", {**CLUSTER, "status": {"desiredCPU": 4}}
    ),
    "a format": Case(
        MACHINES,
        "v1beta2",
        sets("spec.template.spec.version", format="date"),
        "spec.template.spec.version",
        machines(),
    ),
    "a default that a rule looks at": Case(
        MACHINES,
        "v1beta2",
        default_under_a_rule,
        "spec.paused",
        machines(),
    ),
}

ADDITIVE = {
    "the fields of a newer version (KubeRay)": Case(RAY, "v1alpha1", "v1", "spec.managedBy", OLD_CLUSTER),
    "an optional field": Case(AIBRIX, "v1alpha1", adds("spec", "owner", STRING), "spec.owner", SCALER),
    "a field with a default": Case(
        MACHINES, "v1beta2", adds("spec", "order", {**INTEGER, "default": 1}), "spec.order", machines()
    ),
    "a default": Case(AIBRIX, "v1alpha1", sets("spec.minReplicas", default=1), "spec.minReplicas", SCALER),
    "a required field with a default": Case(
        MACHINES,
        "v1beta2",
        adds("spec", "order", {**INTEGER, "default": 1}, required=True),
        "spec.order",
        machines(),
    ),
    "a value of an enum": Case(
        AIBRIX,
        "v1alpha1",
        sets("spec.scalingStrategy", enum=["HPA", "KPA", "APA", "own"]),
        "spec.scalingStrategy",
        SCALER,
    ),
    "a wider bound": Case(
        AIBRIX,
        "v1alpha1",
        sets("spec.observeWindowSeconds", maximum=7200),
        "spec.observeWindowSeconds",
        SCALER,
    ),
    "a pattern removed": Case(
        RAY,
        "v1",
        drops("status.desiredCPU", "pattern"),
        "status.desiredCPU",
        {**CLUSTER, "status": {"desiredCPU": "4"}},
    ),
    "a required field made optional": Case(
        MACHINES, "v1beta2", frees("spec", "selector"), "spec.selector", machines()
    ),
    "rules removed": Case(RAY, "v1", drops("spec.managedBy", RULES), "spec.managedBy", CLUSTER),
    "unknown fields kept": Case(RAY, "v1", sets("spec", **{PRESERVE: True}), "spec", CLUSTER),
    "null allowed": Case(MACHINES, "v1beta2", sets("spec.paused", nullable=True), "spec.paused", machines()),
    "text in place of a number": Case(
        MACHINES,
        "v1beta2",
        adds("spec", "replicas", {"x-kubernetes-int-or-string": True}),
        "spec.replicas",
        machines(),
    ),
    "a wider format": Case(
        AIBRIX, "v1alpha1", sets("spec.maxReplicas", format="int64"), "spec.maxReplicas", SCALER
    ),
    "fewer items": Case(
        AIBRIX, "v1alpha1", drops("spec.metricsSources", "minItems"), "spec.metricsSources", SCALER
    ),
    "any value": Case(KUBERO, "v1alpha1", sets("metadata", description="of all objects"), "", PIPELINE),
}


@pytest.mark.rule("definitions-compared")
@pytest.mark.parametrize("case", NARROWING.values(), ids=list(NARROWING))
def test_a_narrowing_change_names_its_field_and_reads_objects_of_which_one_does_not_fit(case: Case) -> None:
    old, new = case.schemas
    found = [change for change in schema_changes(old, new, case.version) if change.path == case.at]
    assert any(change.effect != "additive" and change.reads for change in found)
    obj = shown(old, dict(case.obj))
    assert obj is not None
    after = shown(new, obj)
    assert after is None or not keeps(obj, after)


@pytest.mark.rule("definitions-compared")
@pytest.mark.parametrize("case", ADDITIVE.values(), ids=list(ADDITIVE))
def test_an_additive_change_names_its_field_and_leaves_objects_as_they_are(case: Case) -> None:
    old, new = case.schemas
    found = list(schema_changes(old, new, case.version))
    assert {change.effect for change in found} <= {"additive"}
    assert not case.at or case.at in {change.path for change in found}
    obj = shown(old, dict(case.obj))
    assert obj is not None
    assert_fits(new, obj)


@pytest.mark.parametrize("file", [RAY, AIBRIX, MACHINES, KUBERO])
def test_a_definition_of_users_does_not_differ_from_itself(file: str) -> None:
    assert definition_changes(sample(file), sample(file)) == []
