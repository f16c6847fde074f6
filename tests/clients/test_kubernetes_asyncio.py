"""kubernetes_asyncio, typed and dynamic."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client, config, dynamic, watch
from kubernetes_asyncio.client.exceptions import ApiException

from tests.clients.gadgets import FINALIZER, deployment, gadget, gadget_definition, image_of

# What a client leaves open is its own affair, and it is found whenever garbage is collected next.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

GROUP = "asyncio.example.com"
PLACE = (GROUP, "v1", "default", "gadgets")


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[client.ApiClient]:
    made = await config.new_client_from_config(str(kubeconfig))
    async with made:
        await define(made, GROUP)
        yield made


async def define(api: client.ApiClient, group: str) -> None:
    definitions = client.ApiextensionsV1Api(api)
    try:
        await definitions.create_custom_resource_definition(gadget_definition(group))
    except ApiException as error:
        if error.status != 409:
            raise
    selector = f"metadata.name=gadgets.{group}"
    async with watch.Watch() as stream:
        async for event in stream.stream(
            definitions.list_custom_resource_definition, field_selector=selector, timeout_seconds=5
        ):
            status = event["object"].status
            if {c.type: c.status for c in status.conditions or ()}.get("Established") == "True":
                return
    raise AssertionError("the definition was not established")


async def test_typed_objects_are_created_read_changed_and_deleted(api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    metadata = client.V1ObjectMeta(name="typed", labels={"app": "a"})
    made = await core.create_namespaced_config_map(
        "default", client.V1ConfigMap(metadata=metadata, data={"k": "1"})
    )
    assert made.metadata.uid
    made.data["k"] = "2"
    replaced = await core.replace_namespaced_config_map("typed", "default", made)
    with pytest.raises(ApiException) as stale:
        await core.replace_namespaced_config_map("typed", "default", made)
    assert (stale.value.status, stale.value.reason) == (409, "Conflict")
    listed = await core.list_namespaced_config_map("default", label_selector="app=a")
    assert [item.data for item in listed.items] == [replaced.data]
    assert (await core.delete_namespaced_config_map("typed", "default")).status == "Success"


async def test_typed_workloads_are_returned_as_they_were_sent(api: client.ApiClient) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "serviceName": "s"}
    apps = client.AppsV1Api(api)
    made = await apps.create_namespaced_stateful_set("default", {"metadata": {"name": "typed"}, "spec": spec})
    assert made.spec.pod_management_policy == "OrderedReady"
    scaled = await apps.patch_namespaced_stateful_set_scale("typed", "default", {"spec": {"replicas": 3}})
    assert scaled.spec.replicas == 3
    await apps.delete_namespaced_stateful_set("typed", "default", propagation_policy="Background")


async def test_a_typed_deployment_is_patched_in_every_way_and_applied(api: client.ApiClient) -> None:
    apps, place = client.AppsV1Api(api), ("patched", "default")
    await apps.create_namespaced_deployment("default", deployment("patched", "a:1", "b:1"))
    strategic = await apps.patch_namespaced_deployment(
        *place, image_of("c1", "b:2"), _content_type="application/strategic-merge-patch+json"
    )
    assert [one.image for one in strategic.spec.template.spec.containers] == ["a:1", "b:2"]
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    patched = await apps.patch_namespaced_deployment(
        *place, operations, _content_type="application/json-patch+json"
    )
    assert patched.spec.replicas == 3
    intent = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}}
    apply = {"field_manager": "one", "_content_type": "application/apply-patch+yaml"}
    with pytest.raises(ApiException) as conflict:
        await apps.patch_namespaced_deployment(*place, intent, **apply)
    assert conflict.value.status == 409
    applied = await apps.patch_namespaced_deployment(*place, intent, force=True, **apply)
    assert applied.spec.replicas == 5
    assert "one" in [entry.manager for entry in applied.metadata.managed_fields]
    await apps.delete_namespaced_deployment(*place)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/merge-patch+json", {"spec": {"size": 2}}),
        ("application/json-patch+json", [{"op": "replace", "path": "/spec/size", "value": 2}]),
    ],
)
async def test_custom_objects_are_patched(api: client.ApiClient, content_type: str, body: Any) -> None:
    custom = client.CustomObjectsApi(api)
    await custom.create_namespaced_custom_object(*PLACE, gadget(GROUP, "patched", size=1))
    patched = await custom.patch_namespaced_custom_object(*PLACE, "patched", body, _content_type=content_type)
    assert patched["spec"] == {"size": 2, "color": "red"}
    status = await custom.patch_namespaced_custom_object_status(
        *PLACE, "patched", {"status": {"phase": "Up"}}, _content_type="application/merge-patch+json"
    )
    assert (status["status"], status["metadata"]["generation"]) == ({"phase": "Up"}, 2)
    await custom.delete_namespaced_custom_object(*PLACE, "patched")


async def test_an_invalid_object_is_a_422_that_names_the_field(api: client.ApiClient) -> None:
    custom = client.CustomObjectsApi(api)
    with pytest.raises(ApiException) as invalid:
        await custom.create_namespaced_custom_object(*PLACE, gadget(GROUP, "large", size=101))
    assert invalid.value.status == 422
    assert "spec.size" in invalid.value.body


async def test_a_watch_sees_changes_after_a_list(api: client.ApiClient) -> None:
    custom = client.CustomObjectsApi(api)
    listed = await custom.list_namespaced_custom_object(*PLACE)
    await custom.create_namespaced_custom_object(*PLACE, gadget(GROUP, "watched", size=1))
    await custom.delete_namespaced_custom_object(*PLACE, "watched")
    seen = []
    async with watch.Watch() as stream:
        async for event in stream.stream(
            custom.list_namespaced_custom_object, *PLACE,
            resource_version=listed["metadata"]["resourceVersion"], timeout_seconds=5,
        ):  # fmt: skip
            seen.append((event["type"], event["object"]["metadata"]["name"]))
            if event["type"] == "DELETED":
                break
    assert seen == [("ADDED", "watched"), ("DELETED", "watched")]


async def test_a_finalizer_holds_an_object_until_it_is_removed(api: client.ApiClient) -> None:
    custom = client.CustomObjectsApi(api)
    await custom.create_namespaced_custom_object(*PLACE, gadget(GROUP, "held", finalizers=(FINALIZER,)))
    await custom.delete_namespaced_custom_object(*PLACE, "held")
    assert (await custom.get_namespaced_custom_object(*PLACE, "held"))["metadata"]["deletionTimestamp"]
    await custom.patch_namespaced_custom_object(
        *PLACE, "held", {"metadata": {"finalizers": None}}, _content_type="application/merge-patch+json"
    )
    with pytest.raises(ApiException) as gone:
        await custom.get_namespaced_custom_object(*PLACE, "held")
    assert gone.value.status == 404


async def test_the_dynamic_client_discovers_applies_and_watches(api: client.ApiClient) -> None:
    dyn = await dynamic.DynamicClient(api)
    gadgets = await dyn.resources.get(api_version=f"{GROUP}/v1", kind="Gadget")
    applied = await dyn.server_side_apply(
        gadgets, gadget(GROUP, "applied", size=1), name="applied", namespace="default", field_manager="one"
    )
    assert applied.spec.color == "red"
    refused = await dyn.server_side_apply(
        gadgets, gadget(GROUP, "applied", size=2), name="applied", namespace="default", field_manager="two"
    )
    assert (refused.kind, refused.code, refused.reason) == ("Status", 409, "Conflict")  # it raises nothing
    listed = await gadgets.get(namespace="default")
    assert "applied" in [item.metadata.name for item in listed.items]
    await gadgets.delete(name="applied", namespace="default")


async def test_the_dynamic_client_patches_watches_and_deletes(api: client.ApiClient) -> None:
    dyn = await dynamic.DynamicClient(api)
    gadgets = await dyn.resources.get(api_version=f"{GROUP}/v1", kind="Gadget")
    made = await gadgets.create(body=gadget(GROUP, "dynamic", size=1, finalizers=(FINALIZER,)))
    place = {"name": "dynamic", "namespace": "default"}
    merged = await gadgets.patch(
        body={"spec": {"size": 2}}, content_type="application/merge-patch+json", **place
    )
    assert merged.spec.size == 2
    operations = [{"op": "remove", "path": "/spec/size"}]
    patched = await gadgets.patch(body=operations, content_type="application/json-patch+json", **place)
    assert patched.spec.to_dict() == {"color": "red"}
    replaced = await gadgets.replace(body={**patched.to_dict(), "spec": {"size": 4}}, namespace="default")
    assert replaced.spec.size == 4
    status = await gadgets.status.patch(
        body={"status": {"phase": "Up"}}, content_type="application/merge-patch+json", **place
    )
    assert status.status.phase == "Up"
    await gadgets.delete(**place)
    assert (await gadgets.get(**place)).metadata.deletionTimestamp
    released = {"metadata": {"finalizers": None}}
    await gadgets.patch(body=released, content_type="application/merge-patch+json", **place)
    seen = []
    async with watch.Watch() as watcher:
        async for event in dyn.watch(
            gadgets, namespace="default", resource_version=made.metadata.resourceVersion, watcher=watcher
        ):
            seen.append(event["type"])
            if event["type"] == "DELETED":
                break
    assert seen == ["MODIFIED"] * 5 + ["DELETED"]


async def test_a_user_is_limited_to_its_role(api: client.ApiClient) -> None:
    api.set_default_header("Impersonate-User", "system:serviceaccount:default:nobody")
    with pytest.raises(ApiException) as refused:
        await client.CoreV1Api(api).list_namespaced_secret("default")
    assert refused.value.status == 403
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="list", resource="secrets")
        )
    )
    answer = await client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert answer.status.allowed is False
