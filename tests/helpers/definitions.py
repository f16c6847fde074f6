"""Definitions of custom kinds for tests."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    needs = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needs}


def list_of(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def definition(
    kind: str, schema: Mapping[str, Any] = ANYTHING, *, group: str = "example.com", **version: Any
) -> dict[str, Any]:
    """The CustomResourceDefinition of a namespaced kind; `version` are further fields of its one version."""
    singular = kind.lower()
    plural = f"{singular}s"
    names = {"kind": kind, "plural": plural, "singular": singular, "listKind": f"{kind}List"}
    served = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    versions = [deepcopy({**served, "schema": {"openAPIV3Schema": schema}, **version})]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }
