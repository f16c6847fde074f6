"""Volumes, claims and storage classes: what is completed, refused, warned of, and kept while it is used."""

from typing import Any

import pytest

from tests.embedded.api_client import PODS, Api

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
LIMITS = "/api/v1/namespaces/default/limitranges"
HOST_PATH = {"hostPath": {"path": "/d"}}
WHERE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
SECRET = {"name": "s", "namespace": "n"}
INITIATOR = "eui.0123456789abcdef"


def volume(**spec: Any) -> dict[str, Any]:
    whole = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
    return {"metadata": {"name": "a"}, "spec": {k: v for k, v in whole.items() if v is not None}}


def claim(**spec: Any) -> dict[str, Any]:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": "a"}, "spec": {k: v for k, v in whole.items() if v is not None}}


def storage_class(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "provisioner": "example.com/p", **more}


def causes_of(answer: Any) -> list[str]:
    """`Reason field` of each cause, sorted; none if the write is accepted."""
    if answer.status < 400:
        return []
    assert answer.status == 422, answer.body
    return sorted(f"{reason.removeprefix('FieldValue')} {field}" for reason, field in answer.causes)


def warnings(answer: Any) -> int:
    text: str = answer.headers.get("warning", "")
    return text.count("299 ")


# --- volumes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "field", "expected"),
    [
        ({"hostPath": {"path": "/d"}}, "type", ""),
        ({"iscsi": {"targetPortal": "p", "iqn": "iqn.2001-04.a:b", "lun": 0}}, "iscsiInterface", "default"),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, "keyring", "/etc/ceph/keyring"),
        ({"rbd": {"monitors": ["m"], "image": "i", "pool": "p"}}, "pool", "p"),
        ({"azureDisk": {"diskName": "d", "diskURI": "https://d"}}, "cachingMode", "ReadWrite"),
        ({"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": SECRET}},
         "fsType", "xfs"),
    ],
)  # fmt: skip
def test_the_source_of_a_volume_is_completed(
    api: Api, source: dict[str, Any], field: str, expected: str
) -> None:
    spec = api.ok("POST", VOLUMES, volume(**source))["spec"]
    (name,) = source
    assert spec[name][field] == expected
    assert (spec["persistentVolumeReclaimPolicy"], spec["volumeMode"]) == ("Retain", "Filesystem")


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({}, ["Required spec"]),
        ({"hostPath": {"path": "/d"}, "nfs": {"server": "s", "path": "/"}}, ["Forbidden spec.nfs"]),
        ({"hostPath": {"path": ""}}, ["Required spec.hostPath.path"]),
        ({"hostPath": {"path": "/a/../b"}}, ["Invalid spec.hostPath.path"]),
        ({"hostPath": {"path": "/a", "type": "Odd"}}, ["NotSupported spec.hostPath.type"]),
        ({"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"},
         ["Forbidden spec.persistentVolumeReclaimPolicy"]),
        ({**HOST_PATH, "persistentVolumeReclaimPolicy": "Odd"},
         ["NotSupported spec.persistentVolumeReclaimPolicy"]),
        ({**HOST_PATH, "capacity": {}}, ["NotSupported spec.capacity", "Required spec.capacity"]),
        ({**HOST_PATH, "capacity": {"cpu": "1"}}, ["NotSupported spec.capacity"]),
        ({**HOST_PATH, "capacity": {"storage": "0"}}, ["Invalid spec.capacity[storage]"]),
        ({**HOST_PATH, "capacity": {"storage": "-1"}}, ["Invalid spec.capacity[storage]"] * 2),
        ({**HOST_PATH, "accessModes": []}, ["Required spec.accessModes"]),
        ({**HOST_PATH, "accessModes": ["Odd"]}, ["NotSupported spec.accessModes"]),
        ({**HOST_PATH, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}, ["Forbidden spec.accessModes"]),
        ({**HOST_PATH, "volumeMode": "Odd"}, ["NotSupported spec.volumeMode"]),
        ({**HOST_PATH, "storageClassName": "Odd!"}, ["Invalid spec.storageClassName"]),
        ({**HOST_PATH, "volumeAttributesClassName": "x"}, ["Required spec.csi"]),
        ({**HOST_PATH, "nodeAffinity": {}}, ["Required spec.nodeAffinity.required"]),
        ({**HOST_PATH, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
         ["Required spec.nodeAffinity.required.nodeSelectorTerms"]),
        ({"local": {"path": "/d"}}, ["Required spec.nodeAffinity"]),
        ({"local": {"path": "../d"}, "nodeAffinity": WHERE}, ["Invalid spec.local.path"]),
        ({"nfs": {}}, ["Invalid spec.nfs.path", "Required spec.nfs.path", "Required spec.nfs.server"]),
        ({"gcePersistentDisk": {"pdName": "p", "partition": 256}}, ["Invalid spec.persistentDisk.partition"]),
        ({"awsElasticBlockStore": {}}, ["Required spec.awsElasticBlockStore.volumeID"]),
        ({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
         ["Invalid spec.glusterfs.endpointsNamespace"]),
        ({"flocker": {}}, ["Required spec.flocker"]),
        ({"flocker": {"datasetName": "a/b", "datasetUUID": "u"}},
         ["Invalid spec.flocker", "Invalid spec.flocker.datasetName"]),
        ({"quobyte": {"registry": "odd", "volume": "v"}}, ["Invalid spec.quobyte.registry"]),
        ({"cephfs": {}}, ["Required spec.cephfs.monitors"]),
        ({"iscsi": {"targetPortal": "p", "iqn": "odd", "lun": 300}},
         ["Invalid spec.iscsi.iqn", "Invalid spec.iscsi.lun"]),
        ({"iscsi": {"targetPortal": "p" * 64, "iqn": INITIATOR, "lun": 0, "initiatorName": "odd"}},
         ["Invalid spec.iscsi.initiatorname", "Invalid spec.iscsi.targetportal"]),
        ({"iscsi": {"targetPortal": "p", "iqn": INITIATOR, "lun": 0, "chapAuthSession": True}},
         ["Required spec.iscsi.secretRef"]),
        ({"fc": {}}, ["Required spec.fc.targetWWNs"]),
        ({"fc": {"targetWWNs": ["a"]}}, ["Required spec.fc.lun"]),
        ({"flexVolume": {"driver": "d", "options": {"kubernetes.io/a": "b"}}},
         ["Invalid spec.flexVolume.options[kubernetes.io/a]"]),
        ({"azureFile": {"secretName": "s", "shareName": "n", "secretNamespace": ""}},
         ["Required spec.azureFile.secretNamespace"]),
        ({"azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Managed", "cachingMode": "Odd"}},
         ["NotSupported spec.azureDisk.cachingMode", "NotSupported spec.azureDisk.diskURI"]),
        ({"cinder": {"volumeID": "v", "secretRef": {}}},
         ["Required spec.cinder.secretRef.name", "Required spec.cinder.secretRef.namespace"]),
        ({"storageos": {"volumeName": "Odd!"}}, ["Invalid spec.storageos.volumeName"]),
        ({"csi": {"driver": "", "volumeHandle": "h"}}, ["Required spec.csi.driver"]),
        ({"csi": {"driver": "-", "volumeHandle": "h"}}, ["Invalid spec.csi.driver"]),
        ({"csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "Odd!"}}},
         ["Invalid spec.csi.nodePublishSecretRef.name", "Required spec.csi.nodePublishSecretRef.namespace"]),
    ],
)  # fmt: skip
def test_a_volume_that_breaks_a_rule_is_refused(api: Api, spec: dict[str, Any], causes: list[str]) -> None:
    answer = api.send("POST", VOLUMES, volume(**spec))
    assert causes_of(answer) == causes


@pytest.mark.parametrize(
    ("before", "change", "causes"),
    [
        (HOST_PATH, {"hostPath": {"path": "/e"}}, ["Forbidden spec.persistentvolumesource"]),
        (HOST_PATH, {"volumeMode": "Block"}, ["Invalid volumeMode"]),
        (HOST_PATH, {"storageClassName": "Odd!"}, ["Invalid spec.storageClassName"] * 2),
        (HOST_PATH, {"nodeAffinity": WHERE}, []),
        ({**HOST_PATH, "nodeAffinity": WHERE}, {"nodeAffinity": None}, ["Invalid nodeAffinity"]),
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {"csi": {"controllerExpandSecretRef": SECRET}}, []),
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {"csi": {"nodeExpandSecretRef": SECRET}},
         ["Forbidden spec.persistentvolumesource"]),
    ],
)  # fmt: skip
def test_the_place_of_a_volume_is_fixed(
    api: Api, before: dict[str, Any], change: dict[str, Any], causes: list[str]
) -> None:
    api.ok("POST", VOLUMES, volume(**before))
    answer = api.send("PATCH", f"{VOLUMES}/a", {"spec": change}, content_type="application/merge-patch+json")
    assert causes_of(answer) == causes


def test_a_newer_name_of_a_label_may_replace_the_older_one(api: Api) -> None:
    def affinity(key: str) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["z"]}]}
        return {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}

    old, new = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    assert warnings(api.send("POST", VOLUMES, volume(**HOST_PATH, **affinity(old)))) == 1
    assert api.merge(f"{VOLUMES}/a", {"spec": affinity(new)})["spec"] == volume(
        hostPath={"path": "/d", "type": ""}, **affinity(new), persistentVolumeReclaimPolicy="Retain",
        volumeMode="Filesystem",
    )["spec"]  # fmt: skip


def test_the_phase_of_a_volume_has_a_time(api: Api) -> None:
    made = api.ok("POST", VOLUMES, volume(**HOST_PATH))["status"]
    assert made == {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-02T03:04:05Z"}
    api.clock.advance(60)
    bound = api.merge(f"{VOLUMES}/a/status", {"status": {"phase": "Bound"}})["status"]
    assert bound == {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-02T03:05:05Z"}
    said = {"phase": "Released", "lastPhaseTransitionTime": "2025-01-01T00:00:00Z"}
    assert api.merge(f"{VOLUMES}/a/status", {"status": said})["status"] == said


@pytest.mark.parametrize(
    ("spec", "annotations", "count"),
    [
        (HOST_PATH, {}, 0),
        ({**HOST_PATH, "persistentVolumeReclaimPolicy": "Recycle"}, {}, 1),
        (HOST_PATH, {"volume.beta.kubernetes.io/storage-class": "x"}, 1),
        ({"cephfs": {"monitors": ["m"]}}, {}, 1),
    ],
)
def test_the_writer_of_a_volume_is_warned_of_what_is_old(
    api: Api, spec: dict[str, Any], annotations: dict[str, str], count: int
) -> None:
    made = {**volume(**spec), "metadata": {"name": "a", "annotations": annotations}}
    assert warnings(api.send("POST", VOLUMES, made)) == count


# --- claims -----------------------------------------------------------------------------------

SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"}
THING = {"apiGroup": "example.com", "kind": "Thing", "name": "x"}


@pytest.mark.parametrize(
    ("given", "source", "reference"),
    [
        ({"dataSource": SNAPSHOT}, SNAPSHOT, SNAPSHOT),
        ({"dataSource": {"kind": "ConfigMap", "name": "x"}}, None, None),
        ({"dataSourceRef": THING}, THING, THING),
        ({"dataSourceRef": {**THING, "namespace": "other"}}, None, None),
    ],
)
def test_both_ways_to_name_a_source_are_kept_alike(
    api: Api, given: dict[str, Any], source: Any, reference: Any
) -> None:
    spec = api.ok("POST", CLAIMS, claim(**given))["spec"]
    assert (spec.get("dataSource"), spec.get("dataSourceRef")) == (source, reference)


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"accessModes": None}, ["Required spec.accessModes"]),
        ({"resources": None}, ["Required spec.resources[storage]"]),
        ({"resources": {"requests": {"storage": "0"}}}, ["Invalid spec.resources[storage]"]),
        ({"storageClassName": "Odd!"}, ["Invalid spec.storageClassName"]),
        ({"volumeMode": "Odd"}, ["NotSupported spec.volumeMode"]),
        ({"volumeAttributesClassName": "Odd!"}, ["Invalid spec.volumeAttributesClassName"]),
        ({"selector": {"matchLabels": {"a": "b!"}}}, ["Invalid spec.selector.matchLabels"]),
        ({"dataSource": SNAPSHOT, "dataSourceRef": THING}, ["Invalid spec"]),
        ({"dataSourceRef": {"kind": "Pod", "name": "x"}},
         ["Invalid spec.dataSource", "Invalid spec.dataSourceRef"]),
    ],
)  # fmt: skip
def test_a_claim_that_breaks_a_rule_is_refused(api: Api, spec: dict[str, Any], causes: list[str]) -> None:
    answer = api.send("POST", CLAIMS, claim(**spec))
    assert causes_of(answer) == causes


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({"accessModes": ["ReadOnlyMany"]}, ["Forbidden spec"]),
        ({"volumeName": "v"}, []),
        ({"storageClassName": "fast"}, []),
        ({"volumeMode": "Block"}, ["Forbidden spec", "Invalid volumeMode"]),
        ({"resources": {"requests": {"storage": "2Gi"}}}, ["Forbidden spec"]),
        ({"resources": {"requests": {"storage": "1024Mi"}}}, []),
        ({"resources": {"requests": {"storage": "1Mi"}}}, ["Forbidden spec"]),
    ],
)  # fmt: skip
def test_what_an_unbound_claim_asks_for_is_fixed(api: Api, change: dict[str, Any], causes: list[str]) -> None:
    api.ok("POST", CLAIMS, claim())
    answer = api.send("PATCH", f"{CLAIMS}/a", {"spec": change}, content_type="application/merge-patch+json")
    assert causes_of(answer) == causes


@pytest.mark.parametrize(("grows", "status"), [(True, 200), (False, 403)])
def test_a_bound_claim_grows_if_its_class_allows_it(api: Api, grows: bool, status: int) -> None:
    api.ok("POST", CLASSES, storage_class(allowVolumeExpansion=grows))
    api.ok("POST", CLAIMS, claim(storageClassName="a", volumeName="v"))
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    api.merge(f"{CLAIMS}/a/status", {"status": bound})
    change = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    answer = api.send("PATCH", f"{CLAIMS}/a", change, content_type="application/merge-patch+json")
    assert answer.status == status


def test_a_bound_claim_does_not_shrink_below_its_capacity(api: Api) -> None:
    api.ok("POST", CLAIMS, claim(volumeName="v"))
    api.merge(f"{CLAIMS}/a/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
    change = {"spec": {"resources": {"requests": {"storage": "1Mi"}}}}
    answer = api.send("PATCH", f"{CLAIMS}/a", change, content_type="application/merge-patch+json")
    assert answer.causes == [("FieldValueForbidden", "spec.resources.requests.storage")]


@pytest.mark.parametrize(
    ("status", "causes"),
    [
        ({"capacity": {"storage": "-1"}}, [("FieldValueInvalid", "status.capacity[storage]")]),
        ({"allocatedResources": {"cpu": "1"}}, [("FieldValueNotSupported", "status.allocatedResources")]),
        ({"allocatedResourceStatuses": {"storage": "Odd"}},
         [("FieldValueNotSupported", "status.allocatedResourceStatus")]),
    ],
)  # fmt: skip
def test_the_status_of_a_claim_is_checked(
    api: Api, status: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    api.ok("POST", CLAIMS, claim())
    change = {"status": status}
    answer = api.send("PATCH", f"{CLAIMS}/a/status", change, content_type="application/merge-patch+json")
    assert answer.causes == causes


def test_a_claim_gets_the_newest_default_class(api: Api) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name, annotations in (("a", default), ("b", default), ("c", {})):
        api.ok("POST", CLASSES, {**storage_class(), "metadata": {"name": name, "annotations": annotations}})
        api.clock.advance(60)
    assert api.ok("POST", CLAIMS, claim())["spec"]["storageClassName"] == "b"
    named = {**claim(storageClassName=""), "metadata": {"name": "none"}}
    assert api.ok("POST", CLAIMS, named)["spec"]["storageClassName"] == ""


@pytest.mark.parametrize(("wanted", "status"), [("1Gi", 201), ("1Mi", 403), ("9Gi", 403)])
def test_a_limit_range_bounds_the_claims_of_its_namespace(api: Api, wanted: str, status: int) -> None:
    limit = {"type": "PersistentVolumeClaim", "min": {"storage": "100Mi"}, "max": {"storage": "2Gi"}}
    api.ok("POST", LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    assert api.send("POST", CLAIMS, claim(resources={"requests": {"storage": wanted}})).status == status


def test_a_fraction_of_a_byte_causes_a_warning(api: Api) -> None:
    assert warnings(api.send("POST", CLAIMS, claim(resources={"requests": {"storage": "1500m"}}))) == 1


# --- protection -------------------------------------------------------------------------------


def test_a_claim_outlives_the_pods_that_use_it(api: Api) -> None:
    api.ok("POST", CLAIMS, claim())
    mount = {"name": "v", "persistentVolumeClaim": {"claimName": "a"}}
    container = {"name": "c", "image": "i"}
    spec = {"nodeName": "n", "containers": [container], "volumes": [mount]}
    api.ok("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    api.settled("DELETE", f"{CLAIMS}/a")
    assert api.ok("GET", f"{CLAIMS}/a")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    api.settled("DELETE", f"{PODS}/p", query={"gracePeriodSeconds": "0"})
    assert api.send("GET", f"{CLAIMS}/a").status == 404


def test_a_volume_outlives_its_binding(api: Api) -> None:
    api.ok("POST", VOLUMES, volume(**HOST_PATH))
    api.merge(f"{VOLUMES}/a/status", {"status": {"phase": "Bound"}})
    api.settled("DELETE", f"{VOLUMES}/a")
    assert api.ok("GET", f"{VOLUMES}/a")["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    api.merge(f"{VOLUMES}/a/status", {"status": {"phase": "Released"}})
    api.server.settle()
    assert api.send("GET", f"{VOLUMES}/a").status == 404


def test_claims_do_not_hold_up_the_end_of_their_namespace(api: Api) -> None:
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    api.ok("POST", CLAIMS.replace("default", "gone"), claim())
    api.settled("DELETE", "/api/v1/namespaces/gone")
    assert api.send("GET", "/api/v1/namespaces/gone").status == 404


# --- classes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({"provisioner": ""}, ["Required provisioner"]),
        ({"provisioner": "odd!"}, ["Invalid provisioner"]),
        ({"reclaimPolicy": "Recycle"}, ["NotSupported reclaimPolicy"]),
        ({"volumeBindingMode": "Odd"}, ["NotSupported volumeBindingMode"]),
        ({"parameters": {"": "x"}}, ["Invalid parameters"]),
        ({"parameters": {f"k{n}": "" for n in range(513)}}, ["TooLong parameters"]),
        ({"parameters": {"k": "v" * 2**18}}, ["TooLong parameters"]),
        ({"allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a", "a"]}]}]},
         ["Duplicate allowedTopologies[0].matchLabelExpressions[0].values[1]"]),
        ({"allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}] * 2},
         ["Duplicate allowedTopologies[1].matchLabelExpressions"]),
    ],
)  # fmt: skip
def test_a_class_that_breaks_a_rule_is_refused(api: Api, change: dict[str, Any], causes: list[str]) -> None:
    answer = api.send("POST", CLASSES, storage_class(**change))
    assert causes_of(answer) == causes


@pytest.mark.parametrize(
    "change",
    [{"parameters": {"a": "b"}}, {"reclaimPolicy": "Retain"}, {"volumeBindingMode": "WaitForFirstConsumer"}],
)
def test_what_a_class_means_is_fixed(api: Api, change: dict[str, Any]) -> None:
    api.ok("POST", CLASSES, storage_class())
    answer = api.send("PATCH", f"{CLASSES}/a", change, content_type="application/merge-patch+json")
    assert answer.causes == [("FieldValueInvalid", name) for name in change]
