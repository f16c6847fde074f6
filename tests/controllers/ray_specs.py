"""Specs of RayClusters as an API server returns them."""

from typing import Any

from controllers.workergroups.raycluster_validation import invalid_fields

UID = "cluster-uid"


def spec(**fields: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    group = {"groupName": "small", "minReplicas": 0, "maxReplicas": 5, "template": template}
    return {
        "headGroupSpec": {"template": template},
        "workerGroupSpecs": [{**group, **fields.pop("group", {})}],
        **fields,
    }


def faults(name: str = "ray", annotations: dict[str, str] | None = None, **fields: Any) -> list[str]:
    metadata = {"name": name, "uid": UID, "annotations": annotations or {}}
    return [str(one) for one in invalid_fields(metadata, spec(**fields))]


def head(ray: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", **(ray or {})}]}}, **fields}
    }
