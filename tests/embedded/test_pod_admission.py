"""What namespaces demand of pods, what the server sets in them, and what their writers are warned of."""

from typing import Any

import pytest
from attrs import frozen

from reconcile.embedded.kinds.built_in_kind import Others
from reconcile.embedded.kinds.pod_security import secure_pod
from reconcile.embedded.kinds.pod_strategy import drop_disabled
from reconcile.embedded.kinds.pod_warnings import pod_warnings, template_warnings
from reconcile.embedded.protocol.api_failure import Denied
from tests.embedded.api_client import PODS, Api, container, pod

LABEL = "pod-security.kubernetes.io/"
LIMITS = "/api/v1/namespaces/default/limitranges"
CAPABLE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SAFE = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@frozen
class OneNamespace:
    """The stored objects of a server that has one namespace."""

    labels: dict[str, str]

    def every(self, group: str, plural: str) -> list[Any]:
        return [{"metadata": {"name": "default", "labels": self.labels}}]

    def within(self, group: str, plural: str, namespace: str) -> list[Any]:
        return []

    def named(self, group: str, plural: str, name: str, namespace: str = "") -> Any:
        return self.every(group, plural)[0] if (plural, name) == ("namespaces", "default") else None


def namespace(**labels: str) -> Others:
    return OneNamespace({f"{LABEL}{mode}": level for mode, level in labels.items()})


def of(spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "default", "annotations": annotations}, "spec": spec}


def is_denied(level: str, made: dict[str, Any]) -> bool:
    try:
        secure_pod(made, None, namespace(enforce=level))
    except Denied:
        return True
    return False


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"containers": [container()]}, True),
        ({"hostNetwork": True}, False),
        ({"hostPID": True}, False),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, False),
        ({"containers": [container(ports=[{"containerPort": 1, "hostPort": 1}])]}, False),
        ({"containers": [container(securityContext={"privileged": True})]}, False),
        ({"containers": [container(securityContext={"capabilities": {"add": ["CHOWN"]}})]}, True),
        ({"initContainers": [container(securityContext={"capabilities": {"add": ["NET_RAW"]}})]}, False),
        ({"containers": [container(securityContext={"procMount": "Unmasked"})]}, False),
        ({"securityContext": {"seLinuxOptions": {"type": "container_t"}}}, True),
        ({"securityContext": {"seLinuxOptions": {"user": "u"}}}, False),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, False),
        ({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, False),
        ({"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}}, True),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, False),
        ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, False),
        ({"containers": [container(livenessProbe={"tcpSocket": {"port": 1, "host": "a"}})]}, False),
        ({"containers": [container(lifecycle={"preStop": {"httpGet": {"port": 1, "host": "a"}}})]}, False),
    ],
)
def test_the_baseline_standard_forbids_the_known_ways_to_the_node(
    spec: dict[str, Any], allowed: bool
) -> None:
    assert is_denied("baseline", of(spec)) is not allowed
    assert not is_denied("privileged", of(spec))


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"containers": [container(securityContext=CAPABLE)], "securityContext": SAFE}, True),
        ({"containers": [container(securityContext={**CAPABLE, **SAFE})]}, True),
        ({"containers": [container(securityContext=CAPABLE)]}, False),
        ({"containers": [container()], "securityContext": SAFE}, False),
        ({"containers": [container(securityContext={**CAPABLE, **SAFE, "runAsUser": 0})]}, False),
        ({"containers": [container(securityContext={**CAPABLE, **SAFE, "runAsNonRoot": False})]}, False),
        (
            {
                "containers": [container(securityContext=CAPABLE)],
                "securityContext": SAFE,
                "volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}],
            },
            False,
        ),
    ],
)
def test_the_restricted_standard_demands_current_hardening(spec: dict[str, Any], allowed: bool) -> None:
    assert is_denied("restricted", of(spec)) is not allowed
    assert is_denied("nonsense", of(spec)) is not allowed


def test_what_a_namespace_warns_of_is_a_warning() -> None:
    made = of({"containers": [container()]})
    assert len(secure_pod(made, None, namespace(warn="restricted"))) == 1
    assert secure_pod(made, None, namespace(warn="baseline")) == []


def test_only_updates_that_change_an_image_are_judged_again() -> None:
    made = of({"containers": [container()], "hostPID": True})
    assert (
        secure_pod({**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}, made, namespace()) == []
    )
    changed = of({"containers": [container(image="app:2")], "hostPID": True})
    with pytest.raises(Denied):
        secure_pod(changed, made, namespace(enforce="baseline"))


# --- limit ranges -----------------------------------------------------------------------------


def limit_range(**item: Any) -> dict[str, Any]:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}


def test_a_limit_range_completes_containers_and_says_so(api: Api) -> None:
    api.ok("POST", LIMITS, limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "100m"}))
    made = api.ok("POST", PODS, pod(initContainers=[container(name="i")]))
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container app; cpu limit for container app; "
        "cpu request for init container i; cpu limit for init container i"
    )
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "resources", "allowed"),
    [
        ({"min": {"cpu": "100m"}}, {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}, True),
        ({"min": {"cpu": "100m"}}, {"requests": {"cpu": "99m"}, "limits": {"cpu": "1"}}, False),
        ({"max": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, True),
        ({"max": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1001m"}}, False),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, True),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}, False),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {}, False),
        ({"type": "Pod", "max": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, False),
        ({"type": "Pod", "max": {"cpu": "2"}}, {"limits": {"cpu": "2"}}, True),
    ],
)
def test_a_limit_range_bounds_what_pods_ask_for(
    api: Api, item: dict[str, Any], resources: dict[str, Any], allowed: bool
) -> None:
    api.ok("POST", LIMITS, limit_range(**item))
    answer = api.send("POST", PODS, pod(containers=[container(resources=resources)]))
    assert answer.status == (201 if allowed else 403)


# --- what the strategy sets -------------------------------------------------------------------


def test_a_gated_pod_says_that_it_waits(api: Api) -> None:
    made = api.ok("POST", PODS, pod(schedulingGates=[{"name": "a"}]))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


def test_terms_take_the_labels_that_they_name(api: Api) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    body = pod(topologySpreadConstraints=[{**spread, "matchLabelKeys": ["app", "none"]}])
    body["metadata"]["labels"] = {"app": "a"}
    (constraint,) = api.ok("POST", PODS, body)["spec"]["topologySpreadConstraints"]
    expected = [{"key": "app", "operator": "In", "values": ["a"]}]
    assert constraint["labelSelector"] == {"matchExpressions": expected}


def test_a_profile_annotation_becomes_a_field_with_a_warning(api: Api) -> None:
    body = pod()
    body["metadata"]["annotations"] = {
        "container.apparmor.security.beta.kubernetes.io/app": "runtime/default"
    }
    answer = api.send("POST", PODS, body)
    context = answer.body["spec"]["containers"][0]["securityContext"]
    assert context == {"appArmorProfile": {"type": "RuntimeDefault"}}
    assert "deprecated since v1.30" in answer.headers["warning"]


def test_fields_of_features_that_are_off_are_dropped() -> None:
    sources: list[dict[str, Any]] = [{"clusterTrustBundle": {"path": "a"}}, {"secret": {"name": "s"}}]
    spec = {
        "schedulingGroup": {"podGroupName": "a"},
        "containers": [container(lifecycle={"stopSignal": "SIGTERM"})],
        "volumes": [{"name": "v", "projected": {"sources": sources}}],
    }
    drop_disabled(spec)
    assert spec == {
        "containers": [container(lifecycle={})],
        "volumes": [{"name": "v", "projected": {"sources": [{}, {"secret": {"name": "s"}}]}}],
    }


# --- warnings ---------------------------------------------------------------------------------


NODE_TERM = {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 0),
        ({"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}}, 1),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [NODE_TERM]}}}}, 1),
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}, 1),
        ({"topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}]}, 2),
        ({"volumes": [{"name": "v", "gitRepo": {"repository": "a"}}]}, 1),
        ({"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}, 1),
        ({"imagePullSecrets": [{}, {}]}, 3),
        ({"overhead": {"memory": "100m"}}, 1),
        ({"containers": [container(resources={"requests": {"memory": "100m"}})]}, 1),
        ({"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])]}, 1),
        ({"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}])]}, 0),
        ({"containers": [container(ports=[{"containerPort": 1}, {"containerPort": 1}])]}, 1),
        ({"containers": [container(ports=[{"containerPort": 1, "hostPort": 2}, {"containerPort": 1}])]}, 1),
        ({"containers": [container(ports=[{"containerPort": 1, "hostIP": "10.0.0.1"}])]}, 1),
    ],
)
def test_the_writer_of_a_pod_is_warned_of_what_works_badly(spec: dict[str, Any], count: int) -> None:
    assert len(pod_warnings(of(spec), None)) == count
    assert pod_warnings(of(spec), of(spec)) == []
    assert len(template_warnings(of(spec), "spec.template")) == count


def test_a_pod_whose_name_is_no_label_is_warned_of() -> None:
    made = of({})
    made["metadata"]["name"] = "a.b"
    assert len(pod_warnings(made, None)) == 1
    assert template_warnings(made, "spec.template") == []


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("/apis/apps/v1/namespaces/default/deployments", {"selector": {"matchLabels": {"a": "b"}}}),
        ("/api/v1/namespaces/default/replicationcontrollers", {}),
    ],
)
def test_the_writer_of_a_workload_is_warned_of_its_template(
    api: Api, path: str, spec: dict[str, Any]
) -> None:
    api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {f"{LABEL}warn": "restricted"}}})
    inner = {"containers": [container()], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {**inner, "schedulingGroup": {"podGroupName": "g"}},
    }
    answer = api.send("POST", path, {"metadata": {"name": "w"}, "spec": {**spec, "template": template}})
    assert "would violate PodSecurity" in answer.headers["warning"]
    assert "spec.template.spec.nodeSelector[beta.kubernetes.io/os]" in answer.headers["warning"]
    assert "schedulingGroup" not in answer.body["spec"]["template"]["spec"]
    unchanged = api.send("PUT", f"{path}/w", answer.body)
    assert "nodeSelector" not in unchanged.headers["warning"]


def test_annotations_without_effect_are_warned_of() -> None:
    assert (
        len(pod_warnings(of({}, **{"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}), None))
        == 1
    )
    assert len(pod_warnings(of({}, **{"scheduler.alpha.kubernetes.io/critical-pod": ""}), None)) == 1
    armored = of({"containers": [container()]}, **{"container.apparmor.security.beta.kubernetes.io/app": ""})
    assert (len(pod_warnings(armored, None)), len(template_warnings(armored, "spec.template"))) == (0, 1)
