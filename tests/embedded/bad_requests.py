"""Requests that nobody should send, made by chance: wrong in one place or in all of them."""

import random
from copy import deepcopy
from typing import Any

import msgspec
import yaml

from reconcile.embedded import ApiRequest
from tests.embedded.api_client import definition

POD_SPEC = {"containers": [{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
RULED: dict[str, Any] = definition()
RULED["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [
    {"rule": "self.metadata.name != 'b'"}
]

KINDS: dict[str, dict[str, Any]] = {
    "/apis/example.com/v1/namespaces/default/widgets": {
        "kind": "Widget",
        "spec": {"size": 1, "color": "red"},
    },
    "/api/v1/namespaces/default/configmaps": {"kind": "ConfigMap", "data": {"a": "b"}},
    "/api/v1/namespaces/default/secrets": {"kind": "Secret", "data": {"a": "Yg=="}, "stringData": {"c": "d"}},
    "/api/v1/namespaces/default/pods": {"kind": "Pod", "spec": POD_SPEC},
    "/api/v1/namespaces/default/services": {"kind": "Service", "spec": {"ports": [{"port": 80}]}},
    "/api/v1/namespaces/default/serviceaccounts": {"kind": "ServiceAccount"},
    "/api/v1/namespaces/default/events": {
        "kind": "Event",
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
    },
    "/api/v1/namespaces/default/resourcequotas": {"kind": "ResourceQuota", "spec": {"hard": {"pods": "9"}}},
    "/api/v1/namespaces": {"kind": "Namespace"},
    "/api/v1/nodes": {"kind": "Node"},
    "/apis/apps/v1/namespaces/default/deployments": {"kind": "Deployment", "spec": SELECTED},
    "/apis/apps/v1/namespaces/default/statefulsets": {
        "kind": "StatefulSet",
        "spec": {**SELECTED, "serviceName": "a"},
    },
    "/apis/batch/v1/namespaces/default/jobs": {
        "kind": "Job",
        "spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}},
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "kind": "Lease",
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-02T03:04:05.000006Z",
        },
    },
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": {"kind": "Role", "rules": RULES},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"kind": "ClusterRole", "rules": RULES},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "kind": "PodDisruptionBudget",
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    },
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": {
        "kind": "HorizontalPodAutoscaler",
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"},
        },
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": RULED,
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    },
}
NAMES = ["a", "b", "widgets.example.com", "default", "A_", "a%2fb", "..", "é", "a" * 300]
SUBRESOURCES = [
    "status",
    "scale",
    "eviction",
    "token",
    "finalize",
    "log",
    "binding",
    "nothing",
    "status/scale",
]
OTHER_PATHS = [
    "",
    "/",
    "/api",
    "/apis",
    "/api/v1",
    "/api/v1/watch/pods",
    "/api/v1/watch/namespaces/default/pods/a/eviction",
    "/api/v1/watch/namespaces/default/serviceaccounts/default/token",
    "/api/v1/proxy/namespaces/default/pods/a",
    "/api/v1/watch",
    "/apis/example.com/v1",
    "/apis/nothing.io/v1/things",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/openapi/v2",
    "/version",
    "/healthz",
    "//api//v1//pods",
    "/api/v1/namespaces//pods",
    "/api/v1/namespaces/default/pods/a/b/c/d",
    "/apis/" + "a/" * 200,
]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
QUERIES: dict[str, list[str]] = {
    "allowWatchBookmarks": ["true", "x"],
    "continue": ["x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhL2IifQ", "e30", "bnVsbA"],
    "dryRun": ["All", "x", ""],
    "fieldManager": ["a", "", "m" * 200],
    "fieldSelector": ["metadata.name=a", "spec.size=1", "a", "=", "metadata.name=a,b"],
    "fieldValidation": ["Strict", "Warn", "Ignore", "x"],
    "force": ["true", "x"],
    "gracePeriodSeconds": ["0", "-1", "x", "9" * 30],
    "labelSelector": ["a=b", "a in (b", "!a", "a notin ()", "(", ",", "a==b,c!=d"],
    "limit": ["1", "0", "-1", "x", "9" * 30],
    "orphanDependents": ["true", "x"],
    "propagationPolicy": ["Foreground", "Orphan", "Background", "x"],
    "resourceVersion": ["0", "1", "x", "-1", "9" * 30, "\u0663"],
    "resourceVersionMatch": ["Exact", "NotOlderThan", "x"],
    "sendInitialEvents": ["true", "false", "x"],
    "shardSelector": ["shardRange(object.metadata.uid, '0', '8')", "x", "("],
    "timeoutSeconds": ["1", "x", "-1", "9" * 30],
    "watch": ["true", "0", "x"],
    "pretty": ["true"],
}
TYPES = [
    "application/json",
    "application/json; charset=utf-8",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "",
    ";",
]
ACCEPTS = [
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "text/html",
    ";;;=",
    "",
]
WORDS = ["", "a", "b", "default", "x" * 70, "é\u0000", "2026-01-02T03:04:05Z", "1Gi", "a/b", "{}", "9" * 40]
FIELDS = [
    *("metadata", "spec", "status", "name", "namespace", "labels", "finalizers", "ownerReferences"),
    *("managedFields", "resourceVersion", "uid", "deletionTimestamp", "generateName", "kind", "apiVersion"),
    *("template", "containers", "replicas", "selector", "rule", "$patch", "$setElementOrder/ports", "type"),
]

NESTED = b'{"a":' * 600 + b"1" + b"}" * 600
BODIES = [b"", b"[" * 5000, NESTED, b"k8s\x00\x0a\x05", b"null", b"{", b"\xff\xfe"]
POINTERS = [
    "",
    *["/", "/spec", "/spec/size", "/metadata/labels/a", "/metadata", "/a/-", "/data/a~1b", "x", "/status"],
]
OPERATIONS = ["add", "remove", "replace", "test", "move", "copy", "x"]
OPTIONS = ["kind", "preconditions", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "dryRun"]


def scalar(chance: random.Random) -> Any:
    """Any value without members."""
    return chance.choice(
        [
            None,
            True,
            False,
            chance.randint(-3, 3),
            chance.randint(-(2**70), 2**70),
            chance.uniform(-1e20, 1e20),
            chance.choice(WORDS),
            chance.choice(WORDS),
        ]
    )


def junk(chance: random.Random, depth: int = 3) -> Any:
    """Any value."""
    kind = chance.randrange(4) if depth else 0
    if kind == 1:
        return [junk(chance, depth - 1) for _ in range(chance.randrange(3))]
    if kind == 2:
        return {chance.choice([*WORDS, *FIELDS]): junk(chance, depth - 1) for _ in range(chance.randrange(4))}
    return scalar(chance)


def broken(chance: random.Random, whole: Any) -> Any:
    """A copy of something valid with up to three places changed."""
    result = deepcopy(whole)
    for _ in range(chance.randrange(4)):
        result = _changed(chance, result)
    return result


def _changed(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice([*sorted(value), chance.choice(FIELDS)])
        if chance.random() < 0.15:
            value.pop(name, None)
        else:
            value[name] = _changed(chance, value.get(name))
        return value
    if isinstance(value, list) and value and chance.random() < 0.7:
        index = chance.randrange(len(value))
        if chance.random() < 0.3:
            value.append(deepcopy(value[index]))
        else:
            value[index] = _changed(chance, value[index])
        return value
    return junk(chance)


def whole_object(collection: str, name: str) -> dict[str, Any]:
    """What could be created there."""
    _, *parts = collection.split("/")
    group = parts[1] if parts[0] == "api" else f"{parts[1]}/{parts[2]}"
    return {"apiVersion": group, "metadata": {"name": name}, **KINDS[collection]}


def _operation(chance: random.Random) -> dict[str, Any]:
    made = {"op": chance.choice(OPERATIONS), "path": chance.choice(POINTERS)}
    return made | chance.choice([{}, {"value": junk(chance)}, {"from": chance.choice(POINTERS)}])


def _body(chance: random.Random, collection: str, name: str, method: str, content_type: str) -> bytes:
    """What is sent: an object or patch with something wrong, or no such thing at all."""
    kind = chance.randrange(20)
    if kind == 0:
        return chance.randbytes(chance.randrange(40))
    if kind == 1:
        return chance.choice(BODIES)
    if "json-patch" in content_type:
        return msgspec.json.encode([_operation(chance) for _ in range(chance.randrange(4))])
    if method == "DELETE":
        return b"" if kind < 12 else msgspec.json.encode({chance.choice(OPTIONS): junk(chance)})
    obj = broken(chance, whole_object(collection, name))
    if "yaml" in content_type and kind < 12:
        return yaml.safe_dump(obj, allow_unicode=False).encode()
    return msgspec.json.encode(obj)


def bad_request(chance: random.Random) -> ApiRequest:
    """One bad request, or a good one: the server must not mind the difference."""
    collection = chance.choice(sorted(KINDS))
    name = _mostly(chance, "a", NAMES)
    method = _mostly(chance, chance.choice(METHODS), ["HEAD", "x"])
    path = _path(chance, collection, name, method)
    query = {
        key: chance.choice(QUERIES[key]) for key in chance.choices(sorted(QUERIES), k=chance.randrange(3))
    }
    content_type = _mostly(chance, TYPES[0], TYPES)
    if method == "PATCH":
        query.setdefault("fieldManager", "fuzz")
        content_type = _mostly(chance, chance.choice(TYPES[3:7]), TYPES)
    headers = {"content-type": content_type, "accept": _mostly(chance, ACCEPTS[0], ACCEPTS)}
    return ApiRequest(method, path, query, headers, _body(chance, collection, name, method, content_type))


def _mostly(chance: random.Random, right: str, others: list[str]) -> str:
    return right if chance.random() < 0.85 else chance.choice(others)


def _path(chance: random.Random, collection: str, name: str, method: str) -> str:
    if chance.random() < 0.03:
        return chance.choice(OTHER_PATHS)
    on_collection = 0.9 if method == "POST" else 0.5 if method == "GET" else 0.1
    if chance.random() < on_collection:
        return collection
    below = f"/{chance.choice(SUBRESOURCES)}" if chance.random() < 0.2 else ""
    return f"{collection}/{name}{below}"
