"""The custom resource that every client makes, in a group of its own."""

from typing import Any

FINALIZER = "example.com/held"


def definition(group: str, kind: str = "Gadget") -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "maximum": 100},
                    "color": {"type": "string", "default": "red"},
                    "replicas": {"type": "integer"},
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower()},
            "versions": [version],
        },
    }


def gadget(group: str, name: str, *, finalizers: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": metadata, "spec": spec}


def deployment(name: str, *images: str) -> dict[str, Any]:
    """With a container for each image: c0, c1 and so on."""
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    template = {"metadata": {"labels": {"a": name}}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": name}}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def image_of(container: str, image: str) -> dict[str, Any]:
    """A strategic patch of a deployment that changes one of its containers."""
    return {"spec": {"template": {"spec": {"containers": [{"name": container, "image": image}]}}}}
