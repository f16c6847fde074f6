"""Views of RayClusters, and what is in the pods made from them."""

from typing import Any

from controllers.workergroups.raycluster_view import ClusterView, GroupView, HeadView


def template(ray: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", "image": "ray:1", **(ray or {})}], **spec}}


def cluster(
    ray: dict[str, Any] | None = None, params: dict[str, str] | None = None, **head: Any
) -> ClusterView:
    group = GroupView("small", template=template(ray), ray_start_params=params or {})
    view = HeadView(template=template(ray), ray_start_params=params or {}, **head)
    return ClusterView("ray", "default", "cluster-uid", head=view, groups=(group,))


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {
        one["name"]: one["value"] if "value" in one else one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in container["env"]
    }
