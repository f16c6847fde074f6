"""What a server refuses in pods and templates, one row a rule, as `Reason field.path`."""

from typing import Any

import pytest

from tests.embedded.api_client import PODS, Api, container, pod

INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"
UNKNOWN, MISSING, TWICE = "FieldValueNotSupported", "FieldValueNotFound", "FieldValueDuplicate"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = "requiredDuringSchedulingIgnoredDuringExecution"
MAYBE = "preferredDuringSchedulingIgnoredDuringExecution"
EXEC = {"exec": {"command": ["a"]}}


def causes(api: Api, **spec: Any) -> list[str]:
    answer = api.send("POST", PODS, pod(**spec))
    if answer.status == 201:
        return []
    assert answer.status == 422, answer.body
    return sorted(f"{reason} {field}" for reason, field in answer.causes)


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def mounted(mount: dict[str, Any], **more: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [container(volumeMounts=mounts, **more)],
    }


OF_CONTAINERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"name": ""}, [f"{REQUIRED} name"]),
    ({"name": "A"}, [f"{INVALID} name"]),
    ({"image": ""}, [f"{REQUIRED} image"]),
    ({"image": " a"}, [f"{INVALID} image"]),
    ({"terminationMessagePolicy": "x"}, [f"{UNKNOWN} terminationMessagePolicy"]),
    ({"imagePullPolicy": "x"}, [f"{UNKNOWN} imagePullPolicy"]),
    ({"ports": [{"containerPort": 0}]}, [f"{REQUIRED} ports[0].containerPort"]),
    ({"ports": [{"containerPort": 70000}]}, [f"{INVALID} ports[0].containerPort"]),
    ({"ports": [{"containerPort": 1, "hostPort": 70000}]}, [f"{INVALID} ports[0].hostPort"]),
    ({"ports": [{"containerPort": 1, "protocol": "x"}]}, [f"{UNKNOWN} ports[0].protocol"]),
    ({"ports": [{"containerPort": 1, "name": "A_"}]}, [f"{INVALID} ports[0].name"] * 2),
    (
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        [f"{TWICE} ports[1].name"],
    ),
    (
        {"ports": [{"containerPort": 1, "hostPort": 3}, {"containerPort": 2, "hostPort": 3}]},
        [f"{TWICE} ports[1].hostPort"],
    ),
    ({"env": [{"name": ""}]}, [f"{REQUIRED} env[0].name"]),
    ({"env": [{"name": "a=b"}]}, [f"{INVALID} env[0].name"]),
    ({"env": [{"name": "1 strange name"}]}, []),
    ({"env": [{"name": "A", "valueFrom": {}}]}, [f"{INVALID} env[0].valueFrom"]),
    (
        {"env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        [f"{INVALID} env[0].valueFrom"],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.none"}}}]},
        [f"{INVALID} env[0].valueFrom.fieldRef.fieldPath"],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]},
        [f"{UNKNOWN} env[0].valueFrom.fieldRef.fieldPath"],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b/c']"}}}]},
        [f"{INVALID} env[0].valueFrom.fieldRef"],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.none"}}}]},
        [f"{UNKNOWN} env[0].valueFrom.resourceFieldRef.resource"],
    ),
    (
        {
            "env": [
                {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1k"}}}
            ]
        },
        [f"{INVALID} env[0].valueFrom.resourceFieldRef.divisor"],
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "A", "key": ""}}}]},
        [f"{INVALID} env[0].valueFrom.secretKeyRef.name", f"{REQUIRED} env[0].valueFrom.secretKeyRef.key"],
    ),
    ({"envFrom": [{}]}, [f"{INVALID} envFrom"]),
    ({"envFrom": [{"secretRef": {"name": "a-"}}]}, []),
    ({"envFrom": [{"secretRef": {"name": "A"}}]}, [f"{INVALID} envFrom[0].secretRef.name"]),
    ({"livenessProbe": {}}, [f"{REQUIRED} livenessProbe"]),
    ({"livenessProbe": {**EXEC, "periodSeconds": -1}}, [f"{INVALID} livenessProbe.periodSeconds"]),
    ({"livenessProbe": {**EXEC, "successThreshold": 2}}, [f"{INVALID} livenessProbe.successThreshold"]),
    ({"readinessProbe": {**EXEC, "successThreshold": 2}}, []),
    (
        {"readinessProbe": {**EXEC, "terminationGracePeriodSeconds": 1}},
        [f"{INVALID} readinessProbe.terminationGracePeriodSeconds"],
    ),
    (
        {"startupProbe": {**EXEC, "terminationGracePeriodSeconds": 0}},
        [f"{INVALID} startupProbe.terminationGracePeriodSeconds"],
    ),
    ({"livenessProbe": {"exec": {}}}, [f"{REQUIRED} livenessProbe.exec.command"]),
    ({"livenessProbe": {**EXEC, "grpc": {"port": 1}}}, [f"{FORBIDDEN} livenessProbe.grpc"]),
    ({"livenessProbe": {"tcpSocket": {"port": "1"}}}, [f"{INVALID} livenessProbe.tcpSocket.port"]),
    (
        {
            "livenessProbe": {
                "httpGet": {"port": 1, "scheme": "ftp", "httpHeaders": [{"name": "a b", "value": ""}]}
            }
        },
        [f"{INVALID} livenessProbe.httpGet.httpHeaders", f"{UNKNOWN} livenessProbe.httpGet.scheme"],
    ),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, [f"{INVALID} lifecycle.preStop.sleep"]),
    ({"lifecycle": {"postStart": {}}}, [f"{REQUIRED} lifecycle.postStart"]),
    (
        {"resources": {"limits": {"odd": "1"}}},
        [f"{INVALID} resources.{kind}[odd]" for kind in ("limits", "requests")] * 2,
    ),
    ({"resources": {"requests": {"ex.io/a": "1"}}}, [f"{REQUIRED} resources.limits"]),
    (
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        [f"{INVALID} resources.requests"],
    ),
    ({"resources": {"claims": [{"name": "a"}]}}, [f"{MISSING} resources.claims[0]"]),
    (
        {"resources": {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}},
        [f"{INVALID} resources.{kind}[hugepages-2Mi]" for kind in ("limits", "requests")],
    ),
    ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": ""}]}, [f"{REQUIRED} resizePolicy"]),
    ({"securityContext": {"runAsUser": -1}}, [f"{INVALID} securityContext.runAsUser"]),
    ({"securityContext": {"procMount": "Unmasked"}}, [f"{INVALID} securityContext.procMount"]),
    (
        {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
        [f"{REQUIRED} securityContext.seccompProfile.localhostProfile"],
    ),
    (
        {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}}},
        [f"{INVALID} securityContext.appArmorProfile.localhostProfile"],
    ),
    (
        {"securityContext": {"windowsOptions": {"runAsUserName": "a\\b\\c"}}},
        [f"{INVALID} securityContext.windowsOptions.runAsUserName"],
    ),
    (
        {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}},
        [f"{INVALID} securityContext"],
    ),
    ({"restartPolicy": "x"}, [f"{UNKNOWN} restartPolicy"]),
    (
        {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Stop", "exitCodes": {"values": [1]}}]},
        [f"{UNKNOWN} restartPolicyRules[0].action", f"{UNKNOWN} restartPolicyRules[0].exitCodes.operator"],
    ),
    (
        {"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]},
        [f"{REQUIRED} restartPolicy"],
    ),
]


@pytest.mark.parametrize(("fields", "refused"), OF_CONTAINERS)
def test_a_container_is_refused_for(api: Api, fields: dict[str, Any], refused: list[str]) -> None:
    found = causes(api, containers=[container(**fields)])
    assert found == sorted(cause.replace(" ", " spec.containers[0].") for cause in refused)


OF_VOLUMES: list[tuple[dict[str, Any], list[str]]] = [
    ({"hostPath": {"path": ""}}, [f"{REQUIRED} hostPath.path"]),
    ({"hostPath": {"path": "/a/../b"}}, [f"{INVALID} hostPath.path"]),
    ({"hostPath": {"path": "/a", "type": "x"}}, [f"{UNKNOWN} hostPath.type"]),
    (
        {"gitRepo": {"repository": "", "directory": "/a"}},
        [f"{INVALID} gitRepo.directory", f"{REQUIRED} gitRepo.repository"],
    ),
    ({"gcePersistentDisk": {"pdName": ""}}, [f"{REQUIRED} persistentDisk.pdName"]),
    ({"emptyDir": {"sizeLimit": "-1"}}, [f"{FORBIDDEN} emptyDir.sizeLimit"]),
    ({"emptyDir": {}, "cephfs": {"monitors": ["a"]}}, [f"{FORBIDDEN} cephFS"]),
    (
        {"secret": {"secretName": "", "defaultMode": 512}},
        [f"{INVALID} secret.defaultMode", f"{REQUIRED} secret.secretName"],
    ),
    (
        {"configMap": {"name": "a", "items": [{"key": "a", "path": "../a"}]}},
        [f"{INVALID} configMap.items[0].path"],
    ),
    (
        {"configMap": {"name": "a", "items": [{"key": "", "path": "..a"}]}},
        [f"{INVALID} configMap.items[0].path", f"{REQUIRED} configMap.items[0].key"],
    ),
    ({"downwardAPI": {"items": [{"path": "a"}]}}, [f"{REQUIRED} downwardAPI"]),
    (
        {"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
        [f"{REQUIRED} downwardAPI.resourceFieldRef.containerName"],
    ),
    ({"persistentVolumeClaim": {"claimName": ""}}, [f"{REQUIRED} persistentVolumeClaim.claimName"]),
    (
        {"iscsi": {"targetPortal": "p", "iqn": "x", "lun": 256}},
        [f"{INVALID} iscsi.iqn", f"{INVALID} iscsi.lun"],
    ),
    ({"cinder": {"volumeID": "a", "secretRef": {}}}, [f"{REQUIRED} cinder.secretRef.name"]),
    ({"storageos": {"volumeName": "a", "secretRef": {"name": "s"}}}, []),
    ({"csi": {"driver": "a", "nodePublishSecretRef": {}}}, [f"{REQUIRED} csi.nodePublishSecretRef.name"]),
    ({"ephemeral": {}}, [f"{REQUIRED} ephemeral.volumeClaimTemplate"]),
    ({"image": {"reference": ""}}, [f"{REQUIRED} image.reference"]),
    ({"image": {"reference": "a", "pullPolicy": "x"}}, [f"{UNKNOWN} image.pullPolicy"]),
    (
        {"projected": {"sources": [{"secret": {"name": ""}}]}},
        [f"{REQUIRED} projected.sources[0].secret.name"],
    ),
    (
        {"projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "a"}}]}},
        [f"{FORBIDDEN} projected.sources[0]"],
    ),
    (
        {"projected": {"sources": [{"secret": {"name": "a", "items": [{"key": "a", "path": "a"}] * 2}}]}},
        [f"{INVALID} projected"],
    ),
]


@pytest.mark.parametrize(("source", "refused"), OF_VOLUMES)
def test_a_volume_is_refused_for(api: Api, source: dict[str, Any], refused: list[str]) -> None:
    assert causes(api, **volume(**source)) == [cause.replace(" ", " spec.volumes[0].") for cause in refused]


@pytest.mark.parametrize(
    ("mount", "refused"),
    [
        ({"mountPath": ""}, [f"{REQUIRED} spec.containers[0].volumeMounts[0].mountPath"]),
        ({"name": "w"}, [f"{MISSING} spec.containers[0].volumeMounts[0].name"]),
        ({"subPath": "/a"}, [f"{INVALID} spec.containers[0].volumeMounts.subPath"]),
        ({"subPath": "a", "subPathExpr": "b"}, [f"{INVALID} spec.containers[0].volumeMounts[0].subPathExpr"]),
        (
            {"mountPropagation": "Bidirectional"},
            [f"{FORBIDDEN} spec.containers[0].volumeMounts.mountPropagation"],
        ),
        (
            {"recursiveReadOnly": "Enabled"},
            [f"{FORBIDDEN} spec.containers[0].volumeMounts.recursiveReadOnly"],
        ),
        ({"recursiveReadOnly": "Enabled", "readOnly": True}, []),
    ],
)
def test_a_mount_is_refused_for(api: Api, mount: dict[str, Any], refused: list[str]) -> None:
    assert causes(api, **mounted(mount)) == refused


def test_a_device_needs_a_claim_and_a_place_of_its_own(api: Api) -> None:
    found = causes(api, **mounted({}, volumeDevices=[{"name": "v", "devicePath": "/v"}]))
    place = "spec.containers[0]"
    assert found == [
        f"{INVALID} {place}.volumeDevices[0].devicePath",
        *[f"{INVALID} {place}.volumeDevices[0].name"] * 2,
        f"{INVALID} {place}.volumeMounts[0].mountPath",
        f"{INVALID} {place}.volumeMounts[0].name",
    ]


def term(**fields: Any) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {NODES: [{"topologyKey": "zone", **fields}]}}}


def nodes(**requirement: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "a", **requirement}]}]
    return {"affinity": {"nodeAffinity": {NODES: {"nodeSelectorTerms": terms}}}}


def spread(**fields: Any) -> dict[str, Any]:
    made = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [made]}


SPREAD = "topologySpreadConstraints[0]"
POD_TERM = f"affinity.podAffinity.{NODES}[0]"
NODE_TERM = f"affinity.nodeAffinity.{NODES}.nodeSelectorTerms[0].matchExpressions[0]"
OF_PODS: list[tuple[dict[str, Any], list[str]]] = [
    ({"containers": []}, [f"{REQUIRED} containers"]),
    ({"containers": [container(), container()]}, [f"{TWICE} containers[1].name"]),
    ({"initContainers": [container()]}, [f"{TWICE} initContainers[0].name"]),
    (
        {"initContainers": [container(name="i", livenessProbe=EXEC)]},
        [f"{FORBIDDEN} initContainers[0].livenessProbe"],
    ),
    ({"initContainers": [container(name="i", livenessProbe=EXEC, restartPolicy="Always")]}, []),
    ({"ephemeralContainers": [container(name="e")]}, [f"{FORBIDDEN} ephemeralContainers"]),
    ({"restartPolicy": "x", "dnsPolicy": "y"}, [f"{UNKNOWN} dnsPolicy", f"{UNKNOWN} restartPolicy"]),
    ({"activeDeadlineSeconds": 0}, [f"{INVALID} activeDeadlineSeconds"]),
    ({"nodeSelector": {"a b": "c d"}}, [f"{INVALID} nodeSelector"] * 2),
    ({"nodeName": "A"}, [f"{INVALID} nodeName"]),
    ({"hostname": "a.b", "subdomain": "a.b"}, [f"{INVALID} hostname", f"{INVALID} subdomain"]),
    (
        {"hostAliases": [{"ip": "1.2.3", "hostnames": ["A"]}]},
        [f"{INVALID} hostAliases[0].hostnames[0]", f"{INVALID} hostAliases[0].ip"],
    ),
    ({"dnsPolicy": "None"}, [f"{REQUIRED} dnsConfig"]),
    ({"dnsPolicy": "None", "dnsConfig": {}}, [f"{REQUIRED} dnsConfig.nameservers"]),
    ({"dnsConfig": {"nameservers": ["1.1.1.1"] * 4}}, [f"{INVALID} dnsConfig.nameservers"]),
    (
        {"dnsConfig": {"searches": [".", "a_b.c.", "-"], "options": [{}]}},
        [f"{INVALID} dnsConfig.searches[2]", f"{REQUIRED} dnsConfig.options[0]"],
    ),
    ({"readinessGates": [{"conditionType": "a b"}]}, [f"{INVALID} readinessGates[0].conditionType"]),
    ({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, [f"{FORBIDDEN} nodeName"]),
    ({"tolerations": [{"key": "a", "effect": "x"}]}, [f"{UNKNOWN} tolerations[0].effect"]),
    ({"tolerations": [{"operator": "Equal"}]}, [f"{INVALID} tolerations[0].operator"]),
    ({"tolerations": [{"key": "a", "value": "b c"}]}, [f"{INVALID} tolerations[0].operator"]),
    (nodes(operator="Gt"), [f"{REQUIRED} {NODE_TERM}.values"]),
    (nodes(operator="In", values=["a b"]), [f"{INVALID} {NODE_TERM}.values[0]"]),
    (
        {"affinity": {"nodeAffinity": {MAYBE: [{"weight": 0, "preference": {}}]}}},
        [f"{INVALID} affinity.nodeAffinity.{MAYBE}[0].weight"],
    ),
    (term(namespaces=["A"]), [f"{INVALID} {POD_TERM}.namespace"]),
    (term(labelSelector={"matchLabels": {"a": "b c"}}), [f"{INVALID} {POD_TERM}.labelSelector.matchLabels"]),
    (term(matchLabelKeys=["a"]), [f"{FORBIDDEN} {POD_TERM}.matchLabelKeys"]),
    (
        term(matchLabelKeys=["a"], mismatchLabelKeys=["a"], labelSelector={}),
        [f"{INVALID} {POD_TERM}.matchLabelKeys[0]"],
    ),
    (spread(maxSkew=0), [f"{INVALID} {SPREAD}.maxSkew"]),
    (spread(minDomains=1, whenUnsatisfiable="ScheduleAnyway"), [f"{INVALID} {SPREAD}.minDomains"]),
    (spread(nodeTaintsPolicy="x"), [f"{UNKNOWN} {SPREAD}.nodeTaintsPolicy"]),
    (spread(matchLabelKeys=["a"]), [f"{FORBIDDEN} {SPREAD}.matchLabelKeys"]),
    (
        {"securityContext": {"sysctls": [{"name": "net.a", "value": ""}]}, "hostNetwork": True},
        [f"{INVALID} securityContext.sysctls[0].name"],
    ),
    (
        {"securityContext": {"sysctls": [{"name": "a b", "value": ""}]}},
        [f"{INVALID} securityContext.sysctls[0].name"],
    ),
    ({"securityContext": {"fsGroupChangePolicy": "x"}}, [f"{UNKNOWN} securityContext.fsGroupChangePolicy"]),
    ({"shareProcessNamespace": True, "hostPID": True}, [f"{INVALID} securityContext.shareProcessNamespace"]),
    ({"hostUsers": False, "hostPID": True}, [f"{FORBIDDEN} HostPID"]),
    ({"os": {"name": "x"}}, [f"{UNKNOWN} os"]),
    (
        {"os": {"name": "windows"}, "hostPID": True, "securityContext": {"runAsUser": 1}},
        [f"{FORBIDDEN} hostPID", f"{FORBIDDEN} securityContext.runAsUser"],
    ),
    ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, [f"{INVALID} hostNetwork"]),
    ({"resourceClaims": [{"name": "a"}]}, [f"{INVALID} resourceClaims[0]"]),
    (
        {"resources": {"limits": {"ephemeral-storage": "1"}}},
        [f"{UNKNOWN} resources.limits[ephemeral-storage]"],
    ),
    ({"hostnameOverride": "A"}, [f"{INVALID} hostnameOverride"]),
]


@pytest.mark.parametrize(("spec", "refused"), OF_PODS)
def test_a_pod_is_refused_for(api: Api, spec: dict[str, Any], refused: list[str]) -> None:
    assert causes(api, **spec) == sorted(cause.replace(" ", " spec.") for cause in refused)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("controller.kubernetes.io/pod-deletion-cost", "01", "[{}]"),
        ("kubernetes.io/config.mirror", "a", "[{}]"),
        ("seccomp.security.alpha.kubernetes.io/pod", "x", ".{}"),
        ("container.apparmor.security.beta.kubernetes.io/none", "", "[{}]"),
        ("scheduler.alpha.kubernetes.io/tolerations", "{", ""),
    ],
)
def test_an_annotation_is_refused_for(api: Api, name: str, value: str, shown: str) -> None:
    made = pod()
    made["metadata"]["annotations"] = {name: value}
    assert api.send("POST", PODS, made).causes == [(INVALID, f"metadata.annotations{shown.format(name)}")]


# --- templates --------------------------------------------------------------------------------


def test_a_template_may_have_what_a_pod_may_not(api: Api) -> None:
    port = {"containerPort": 80}
    spec = {
        "containers": [container(image=" app", ports=[port])],
        "hostNetwork": True,
        "restartPolicy": "Never",
    }
    template = {"metadata": {"name": "Odd", "namespace": "Odd"}, "spec": spec}
    api.ok("POST", JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})


def test_a_template_has_the_faults_of_a_pod_and_its_own(api: Api) -> None:
    spec = {
        "containers": [container(name="A")],
        "ephemeralContainers": [container(name="e")],
        "hostname": "a.b",
    }
    template = {"metadata": {"labels": {"a": "b c"}}, "spec": {**spec, "restartPolicy": "Always"}}
    answer = api.send("POST", JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    found = {f"{reason} {field}" for reason, field in answer.causes}
    assert {
        f"{INVALID} spec.template.labels",
        f"{INVALID} spec.template.spec.containers[0].name",
        f"{INVALID} spec.template.spec.hostname",
        f"{FORBIDDEN} spec.template.spec.ephemeralContainers",
    } <= found
