"""The custom resource that every client makes, in a group of its own."""

from typing import Any

from tests.helpers.definitions import INTEGER, SCALE, STRING, definition, object_of

FINALIZER = "example.com/held"


def gadget_definition(group: str, kind: str = "Gadget") -> dict[str, Any]:
    spec = object_of(size={**INTEGER, "maximum": 100}, color={**STRING, "default": "red"}, replicas=INTEGER)
    schema = object_of(spec=spec, status=object_of(phase=STRING))
    return definition(kind, schema, group=group, subresources={"status": {}, "scale": SCALE})


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
