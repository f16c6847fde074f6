"""The official client, with its informer."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config, dynamic, informer, utils, watch
from kubernetes.client.exceptions import ApiException

from tests.clients.gadgets import deployment, gadget, gadget_definition, image_of

GROUP = "official.example.com"
JSON_PATCH = "application/json-patch+json"
PLACE = (GROUP, "v1", "default", "gadgets")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(kubeconfig)) as made:
        definitions = client.ApiextensionsV1Api(made)
        try:
            definitions.create_custom_resource_definition(gadget_definition(GROUP))
        except ApiException as error:
            if error.status != 409:
                raise
        await_established(definitions, f"gadgets.{GROUP}")
        yield made


def await_established(definitions: client.ApiextensionsV1Api, name: str) -> None:
    stream = watch.Watch()
    for event in stream.stream(
        definitions.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=5
    ):
        status = event["object"].status
        if {c.type: c.status for c in status.conditions or ()}.get("Established") == "True":
            return
    raise AssertionError("the definition was not established")


def test_the_informer_follows_config_maps(api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(
        "default", {"metadata": {"name": "first", "labels": {"of": "informer"}}}
    )
    deleted = threading.Event()
    added: list[str] = []
    follower = informer.SharedInformer(
        core.list_namespaced_config_map, "default", label_selector="of=informer"
    )
    follower.add_event_handler(informer.ADDED, lambda obj: added.append(obj.metadata.name))
    follower.add_event_handler(informer.DELETED, lambda obj: deleted.set())
    follower.start()
    try:
        second = {"metadata": {"name": "second", "labels": {"of": "informer"}}}
        while added != ["first"]:
            deleted.wait(0.01)
        core.create_namespaced_config_map("default", second)
        while len(added) < 2:
            deleted.wait(0.01)
        core.delete_namespaced_config_map("first", "default")
        assert deleted.wait(5)
        assert [obj.metadata.name for obj in follower.cache.list()] == ["second"]
    finally:
        core.delete_namespaced_config_map("second", "default")
        follower.stop()


def test_custom_objects_are_created_patched_watched_and_deleted(api: client.ApiClient) -> None:
    custom = client.CustomObjectsApi(api)
    before = custom.list_namespaced_custom_object(*PLACE)["metadata"]["resourceVersion"]
    custom.create_namespaced_custom_object(*PLACE, gadget(GROUP, "a", size=1))
    custom.patch_namespaced_custom_object(*PLACE, "a", {"spec": {"size": 2}})
    custom.patch_namespaced_custom_object(
        *PLACE, "a", [{"op": "remove", "path": "/spec/size"}], _content_type=JSON_PATCH
    )
    custom.replace_namespaced_custom_object_status(
        *PLACE, "a", {**custom.get_namespaced_custom_object(*PLACE, "a"), "status": {"phase": "Up"}}
    )
    custom.delete_namespaced_custom_object(*PLACE, "a")
    seen = []
    stream = watch.Watch()
    for event in stream.stream(
        custom.list_namespaced_custom_object, *PLACE, resource_version=before, timeout_seconds=5
    ):
        seen.append((event["type"], event["object"]["spec"].get("size")))
        if event["type"] == "DELETED":
            stream.stop()
    assert seen == [
        ("ADDED", 1), ("MODIFIED", 2), ("MODIFIED", None), ("MODIFIED", None), ("DELETED", None)
    ]  # fmt: skip


def test_a_typed_deployment_is_patched_strategically_and_applied(api: client.ApiClient) -> None:
    apps, place = client.AppsV1Api(api), ("typed", "default")
    made = apps.create_namespaced_deployment("default", deployment("typed", "a:1", "b:1"))
    assert made.spec.strategy.type == "RollingUpdate"
    patched = apps.patch_namespaced_deployment(*place, image_of("c1", "b:2"))
    assert [one.image for one in patched.spec.template.spec.containers] == ["a:1", "b:2"]
    intent = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}}
    applied = apps.patch_namespaced_deployment(
        *place, intent, field_manager="one", force=True, _content_type="application/apply-patch+yaml"
    )
    assert applied.spec.replicas == 5
    apps.delete_namespaced_deployment(*place)


def test_the_dynamic_client_discovers_and_applies(api: client.ApiClient) -> None:
    gadgets = dynamic.DynamicClient(api).resources.get(api_version=f"{GROUP}/v1", kind="Gadget")
    applied = gadgets.server_side_apply(gadget(GROUP, "applied", size=1), field_manager="one")
    assert applied.spec.to_dict() == {"size": 1, "color": "red"}
    assert gadgets.status.patch(
        body={"status": {"phase": "Up"}},
        name="applied",
        namespace="default",
        content_type="application/merge-patch+json",
    ).status.phase == "Up"  # fmt: skip
    gadgets.delete(name="applied", namespace="default")


def test_an_eviction_and_a_token_are_obtained_through_typed_calls(api: client.ApiClient) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_service_account("default", {"metadata": {"name": "typed"}})
    made = core.create_namespaced_service_account_token(
        "typed", "default", {"spec": {"expirationSeconds": 600}}
    )
    assert made.status.token.count(".") == 2
    pod = {"metadata": {"name": "typed"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    core.create_namespaced_pod("default", pod)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="typed"))
    core.create_namespaced_pod_eviction("typed", "default", eviction)
    with pytest.raises(ApiException, match="404"):
        core.read_namespaced_pod("typed", "default")


def test_a_manifest_is_created_with_the_helper(api: client.ApiClient) -> None:
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "helper", "namespace": "default"},
        "spec": {
            "schedule": "0 0 * * *",
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
                    }
                }
            },
        },
    }
    (made,) = utils.create_from_dict(api, manifest)
    assert made.spec.concurrency_policy == "Allow"
