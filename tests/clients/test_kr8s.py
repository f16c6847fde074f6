"""kr8s, which tells resources apart by their plural alone: this one is in no other test."""

import json
from pathlib import Path
from typing import Any

import kr8s.asyncio
import pytest
import pytest_asyncio
from kr8s.asyncio.objects import APIObject, ConfigMap, CustomResourceDefinition, Deployment, new_class

from tests.clients.gadgets import FINALIZER, gadget, gadget_definition

GROUP = "kr8s.example.com"
Gizmo = new_class(kind="Gizmo", version=f"{GROUP}/v1", namespaced=True, scalable=True, plural="gizmos")


pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings(
        "ignore:Kubernetes version", "ignore::ResourceWarning", "ignore::DeprecationWarning"
    ),
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")  # kr8s keeps one session, bound to its loop
async def api(kubeconfig: Path) -> Any:
    made = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    crd = await CustomResourceDefinition(gadget_definition(GROUP, "Gizmo"), api=made)
    if not await crd.exists():
        await crd.create()
    await crd.wait("condition=Established", timeout=5)
    return made


async def new_gizmo(api: Any, name: str, **more: Any) -> APIObject:
    made: APIObject = await Gizmo({**gadget(GROUP, name, **more), "kind": "Gizmo"}, api=api)
    await made.create()
    return made


async def test_objects_are_created_patched_scaled_and_deleted(api: Any) -> None:
    made = await new_gizmo(api, "a", size=1, replicas=1)
    await made.patch({"spec": {"size": 2}})
    assert made.spec.to_dict() == {"size": 2, "color": "red", "replicas": 1}
    await made.patch([{"op": "replace", "path": "/spec/size", "value": 3}], type="json")
    assert made.spec.size == 3
    await made.patch({"status": {"phase": "Up"}}, subresource="status")
    assert made.status.phase == "Up"
    await made.delete()
    assert not await made.exists()


async def test_objects_are_found_by_the_name_of_their_kind_through_discovery(api: Any) -> None:
    made = await new_gizmo(api, "found", size=1)
    await made.label({"of": "kr8s"})
    found = [item.name async for item in api.get(f"gizmos.{GROUP}", label_selector={"of": "kr8s"})]
    assert found == ["found"]
    await made.delete()


async def test_an_apply_works_through_call_api(api: Any) -> None:
    intent = {**gadget(GROUP, "applied", size=1), "kind": "Gizmo"}
    async with api.call_api(
        "PATCH",
        version=f"{GROUP}/v1",
        url="gizmos/applied",
        namespace="default",
        params={"fieldManager": "kr8s"},
        content=json.dumps(intent),
        headers={"Content-Type": "application/apply-patch+yaml"},
    ) as answer:
        assert answer.status_code == 201
    made = await Gizmo.get("applied", api=api)
    assert made.metadata.managedFields[0].operation == "Apply"
    await made.delete()
    await made.wait("delete", timeout=5)


async def test_a_watch_sees_a_finalizer_hold_and_release_an_object(api: Any) -> None:
    made = await new_gizmo(api, "held", size=1, finalizers=(FINALIZER,))
    await made.delete()
    seen = []
    async for event, obj in made.watch():
        seen.append(event)
        if event == "DELETED":
            break
        await obj.patch({"metadata": {"finalizers": None}})
    assert seen == ["MODIFIED", "DELETED"]


async def test_built_in_objects_and_their_scale(api: Any) -> None:
    config = await ConfigMap({"metadata": {"name": "kr8s"}, "data": {"k": "1"}}, api=api)
    await config.create()
    config.raw["data"]["k"] = "2"
    await config.patch({"data": {"k": "2"}})
    assert (await ConfigMap.get("kr8s", api=api)).data.k == "2"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = await Deployment({"metadata": {"name": "kr8s"}, "spec": spec}, api=api)
    await deployment.create()
    await deployment.patch({"spec": {"replicas": 3}}, subresource="scale")
    await deployment.refresh()
    assert deployment.replicas == 3
    assert await api.whoami() == "system:admin"
