"""Models of built-in kinds carry any further field, in both directions and at any depth."""

import copy
import inspect
import json
import pickle
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Intent, Object, ObjectMeta, field, kinds, resource
from reconcile.kinds import (
    BuiltIn,
    ConfigMap,
    Container,
    Job,
    JobSpec,
    JobStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodTemplate,
    Secret,
)
from reconcile.models import (
    Condition,
    DecodeError,
    LabelRequirement,
    LabelSelector,
    decode,
    definition_of,
    encode,
    structure,
    unstructure,
)
from reconcile.testing import FakeClient
from tests.client.by_example import other_than_default

WITHOUT = {BuiltIn, Condition, LabelRequirement, LabelSelector}
CLASSES = [cls for name in kinds.__all__ if (cls := getattr(kinds, name)) not in WITHOUT]
ODD = {"odd": [0, 0.0, False, "", None, {"deep": [{}]}]}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_keeps_unknown_fields(cls: type[Any]) -> None:
    value = structure(cls, {**other_than_default(cls, None), **ODD})
    assert value.extra == ODD
    assert json.dumps(unstructure(value)["odd"]) == json.dumps(ODD["odd"])


@pytest.mark.parametrize(
    ("conditions", "finished"),
    [
        ((), False),
        ((PodCondition("Complete", "True"),), True),
        ((PodCondition("Suspended", "True"), PodCondition("Failed", "True")), True),
        ((PodCondition("Failed", "False"),), False),
        ((PodCondition("FailureTarget", "True"),), False),
    ],
)
def test_a_job_is_finished_once_a_condition_says_that_it_has_ended(
    conditions: tuple[PodCondition, ...], finished: bool
) -> None:
    assert Job(spec=JobSpec(template={}), status=JobStatus(conditions=conditions)).finished is finished


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([0.0, -0.0, 1.0, "", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=5,
)


def some(**known: Any) -> st.SearchStrategy[dict[str, Any]]:
    more = st.dictionaries(st.sampled_from(["hostAliases", "x-y", "extra", "kind"]), ANY, max_size=2)
    fields = st.fixed_dictionaries({}, optional=known)
    return st.builds(lambda one, other: {**one, **other}, more, fields)


STATUS = some(
    phase=st.sampled_from(["", "Running"]),
    conditions=st.lists(
        some(reason=st.just("")).map(lambda c: {**c, "type": "T", "status": "True"}), max_size=2
    ),
    containerStatuses=st.lists(
        some(state=some(running=st.just({})), restartCount=st.just(0)).map(lambda c: {**c, "name": "c"}),
        max_size=2,
    ),
)
SPEC = some(
    nodeName=st.just("n"),
    containers=st.lists(some().map(lambda c: {**c, "name": "c"}), min_size=1, max_size=2),
)


def shown(of: Any, like: Any) -> Any:
    """What `of` has where `like` has something, in the order of `like`."""
    if isinstance(like, dict):
        return {name: shown(of[name], one) for name, one in like.items()}
    if isinstance(like, list):
        return [shown(one, other) for one, other in zip(of, like, strict=True)]
    return of


@pytest.mark.rule("model-further")
@given(SPEC, STATUS)
def test_a_pod_is_written_with_everything_that_was_read(spec: dict[str, Any], status: dict[str, Any]) -> None:
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec, "status": status}
    assert json.dumps(shown(encode(decode(Pod, raw)), raw)) == json.dumps(raw)


def test_api_version_and_kind_are_extra_fields_only_within_parts_of_an_object() -> None:
    assert decode(Pod, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}).extra == {}
    assert structure(PodSpec, {"kind": "odd"}).extra == {"kind": "odd"}


@pytest.mark.parametrize("name", ["data", "kind", "metadata"])
def test_an_extra_field_that_shadows_a_declared_one_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"ConfigMap\.extra has '{name}', which has a field of its own"):
        encode(ConfigMap(metadata=ObjectMeta("a"), extra={name: {}}))


async def test_extra_fields_are_applied_and_edited_like_others() -> None:
    client = FakeClient()
    spec = PodSpec(containers=({"name": "c", "image": "i"},), extra={"hostNetwork": True, "priority": 0})
    live = await client.apply(Intent(Pod, metadata=ObjectMeta("p", "default"), spec=spec))
    assert (live.spec.extra["hostNetwork"], live.spec.extra["priority"]) == (True, 0)
    async with client.editing(live) as draft:
        draft.spec.extra["activeDeadlineSeconds"] = 60
    after = await client.get(Pod, "p", "default")
    assert (after.spec.extra["activeDeadlineSeconds"], after.spec.extra["hostNetwork"]) == (60, True)


@pytest.mark.parametrize("fields", [{"data": {"p": "hunter2"}}, {"extra": {"stringData": {"p": "hunter2"}}}])
def test_the_content_of_a_secret_is_not_shown(fields: dict[str, Any]) -> None:
    assert "hunter2" not in repr(Secret(metadata=ObjectMeta("s"), **fields))


@frozen
class GateSpec:
    template: PodTemplate = field(factory=PodTemplate)


@resource("example.com/v1")
class Gate(Object):
    spec: GateSpec = GateSpec()


def test_an_embedded_pod_template_keeps_every_field_of_a_pod() -> None:
    template: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"containers": [{"name": "c", "env": []}], "hostAliases": [{"ip": "10.0.0.1"}]},
    }
    client = FakeClient(Gate(metadata=ObjectMeta("other", "default")))
    gate = {"apiVersion": "example.com/v1", "kind": "Gate", "metadata": {"name": "g", "namespace": "default"}}
    assert client.add({**gate, "spec": {"template": template}})["spec"]["template"] == template
    read = decode(Gate, {**gate, "spec": {"template": template}}).spec.template
    assert read.metadata.labels == {"a": "b"}
    assert read.spec.extra == {"hostAliases": template["spec"]["hostAliases"]}
    schema = definition_of(Gate)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    inside = schema["properties"]["spec"]["properties"]["template"]["properties"]["spec"]
    assert inside["x-kubernetes-preserve-unknown-fields"] is True


@frozen
class Two:
    one: Mapping[str, Any] = field(factory=dict, extra_fields=True)
    other: Mapping[str, Any] = field(factory=dict, extra_fields=True)


@frozen
class Typed:
    extra: Mapping[str, str] = field(factory=dict, extra_fields=True)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Two, "Two has two fields for further ones: one and other"),
        (Typed, r"Typed\.extra holds further fields: make it `extra: Mapping\[str, Any\] = field"),
    ],
)
def test_the_field_for_extra_values_is_a_mapping_with_a_default(spec: Any, message: str) -> None:
    assert inspect.isclass(spec)
    assert attrs.has(spec)
    with pytest.raises(TypeError, match=message):
        resource("example.com/v1")(type("Made", (Object,), {"__annotations__": {"spec": spec}}))


def test_field_without_a_default_is_refused_with_an_example() -> None:
    with pytest.raises(TypeError, match=r"a required field has none.*Schema\(min_length=1\)"):
        field(secret=True)  # type: ignore[call-overload]


UP = {
    "Deployment": {"observed_generation": 2, "replicas": 3, "updated_replicas": 3, "available_replicas": 3},
    "StatefulSet": {
        "observed_generation": 2,
        "ready_replicas": 3,
        "current_revision": "b",
        "update_revision": "b",
    },
    "DaemonSet": {
        "observed_generation": 2,
        "desired_number_scheduled": 3,
        "updated_number_scheduled": 3,
        "number_available": 3,
    },
}
NOT_UP = {
    "Deployment": [
        {"observed_generation": 1},
        {"updated_replicas": 2, "replicas": 2, "available_replicas": 2},
        {"replicas": 4},
        {"available_replicas": 2},
    ],
    "StatefulSet": [{"observed_generation": 1}, {"ready_replicas": 2}, {"update_revision": "c"}],
    "DaemonSet": [{"observed_generation": 1}, {"updated_number_scheduled": 2}, {"number_available": 2}],
}


def workload(kind: str, status: dict[str, Any], replicas: int | None = 3) -> Any:
    sized = {} if kind == "DaemonSet" else {"replicas": replicas}
    spec = getattr(kinds, f"{kind}Spec")(LabelSelector({"app": "a"}), {}, **sized)
    said = getattr(kinds, f"{kind}Status")(**status)
    return getattr(kinds, kind)(metadata=ObjectMeta("a", generation=2), spec=spec, status=said)


@pytest.mark.parametrize("kind", UP)
def test_a_workload_has_rolled_out_when_all_of_it_is_updated_available_and_observed(kind: str) -> None:
    assert workload(kind, UP[kind]).rolled_out


@pytest.mark.parametrize(("kind", "status"), [(kind, one) for kind, many in NOT_UP.items() for one in many])
def test_a_workload_has_not_rolled_out_while_anything_is_missing(kind: str, status: dict[str, Any]) -> None:
    assert not workload(kind, {**UP[kind], **status}).rolled_out


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_workload_without_a_number_of_replicas_expects_one(kind: str) -> None:
    counts = {name: min(value, 1) for name, value in UP[kind].items() if name.endswith("replicas")}
    assert workload(kind, {**UP[kind], **counts}, replicas=None).rolled_out
    assert not workload(kind, {**UP[kind], **dict.fromkeys(counts, 0)}, replicas=None).rolled_out


def test_containers_are_decoded_on_access_and_behave_like_a_tuple() -> None:
    spec = structure(PodSpec, {"containers": [{"name": "a"}, {"name": "b", "image": "i"}]})
    eager = (Container("a"), Container("b", image="i"))
    assert len(spec.containers) == 2
    assert spec.containers == eager
    assert [one.name for one in spec.containers] == ["a", "b"]
    assert (spec.containers[1], spec.containers[:1]) == (eager[1], eager[:1])
    assert (*spec.containers, eager[0]) == spec.containers + eager[:1] == eager + eager[:1]
    assert eager[:1] + spec.containers == eager[:1] + eager
    assert repr(spec.containers) == repr(eager)
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == copy.copy(spec) == spec
    assert structure(PodSpec, {"containers": [{"name": "a"}]}) != spec
    assert spec.containers != ["a", "b"]


def test_an_unreadable_container_is_an_error_on_access() -> None:
    pod = decode(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [{"image": "i"}]}})
    with pytest.raises(DecodeError, match=r"^\[0\]\.name: required, but missing$"):
        list(pod.spec.containers)
    with pytest.raises(DecodeError, match=r"\.spec\.containers: expected a list, got 'x'$"):
        decode(Pod, {"metadata": {"name": "p"}, "spec": {"containers": "x"}})
