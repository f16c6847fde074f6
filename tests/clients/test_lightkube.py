"""lightkube."""

from collections.abc import Iterator
from pathlib import Path

import lightkube
import pytest
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import PatchType

from tests.clients.gadgets import FINALIZER, deployment, gadget, gadget_definition, image_of

GROUP = "lightkube.example.com"
Gadget = create_namespaced_resource(GROUP, "v1", "Gadget", "gadgets")


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[lightkube.Client]:
    settings = lightkube.KubeConfig.from_file(str(kubeconfig))
    with lightkube.Client(config=settings, field_manager="lightkube", trust_env=False) as made:
        made.apply(CustomResourceDefinition.from_dict(gadget_definition(GROUP)), force=True)
        made.wait(CustomResourceDefinition, f"gadgets.{GROUP}", for_conditions=["Established"])
        yield made


def test_typed_objects_are_created_read_changed_and_deleted(client: lightkube.Client) -> None:
    made = client.create(ConfigMap(metadata=ObjectMeta(name="light", namespace="default"), data={"k": "1"}))
    assert made.metadata
    assert made.metadata.uid
    made.data = {"k": "2"}
    client.replace(made)
    with pytest.raises(ApiError, match=r"modified|conflict"):
        client.replace(made)
    listed = client.list(ConfigMap, namespace="default", fields={"metadata.name": "light"})
    assert [item.data for item in listed] == [{"k": "2"}]
    client.delete(ConfigMap, "light", namespace="default")
    with pytest.raises(ApiError) as gone:
        client.get(ConfigMap, "light", namespace="default")
    assert gone.value.status.code == 404


def test_custom_objects_are_patched_in_every_way(client: lightkube.Client) -> None:
    client.create(Gadget.from_dict(gadget(GROUP, "a", size=1)))
    merged = client.patch(Gadget, "a", {"spec": {"size": 2}}, namespace="default", patch_type=PatchType.MERGE)
    assert merged.spec == {"size": 2, "color": "red"}
    operations = [{"op": "test", "path": "/spec/size", "value": 2}, {"op": "remove", "path": "/spec/size"}]
    patched = client.patch(Gadget, "a", operations, namespace="default", patch_type=PatchType.JSON)
    assert patched.spec == {"color": "red"}
    scaled = client.patch(
        Gadget.Scale, "a", {"spec": {"replicas": 4}}, namespace="default", patch_type=PatchType.MERGE
    )
    assert scaled.spec.replicas == 4
    client.delete(Gadget, "a", namespace="default")


def test_a_deployment_is_patched_strategically_and_scaled(client: lightkube.Client) -> None:
    client.create(Deployment.from_dict(deployment("light", "a:1", "b:1")))
    patched = client.patch(Deployment, "light", image_of("c1", "b:2"), namespace="default")
    assert patched.spec
    assert patched.spec.template.spec
    assert [one.image for one in patched.spec.template.spec.containers] == ["a:1", "b:2"]
    client.patch(Deployment.Scale, "light", {"spec": {"replicas": 3}}, namespace="default")
    assert client.get(Deployment, "light", namespace="default").spec.replicas == 3
    client.delete(Deployment, "light", namespace="default")


def test_an_apply_of_another_manager_conflicts_unless_forced(client: lightkube.Client) -> None:
    client.apply(Gadget.from_dict(gadget(GROUP, "applied", size=1)))
    other = Gadget.from_dict(gadget(GROUP, "applied", size=2))
    with pytest.raises(ApiError, match=r"modified|conflict"):
        client.apply(other, field_manager="other")
    assert client.apply(other, field_manager="other", force=True).spec["size"] == 2
    client.delete(Gadget, "applied", namespace="default")


def test_a_watch_and_a_finalizer(client: lightkube.Client) -> None:
    made = client.create(Gadget.from_dict(gadget(GROUP, "held", size=1, finalizers=(FINALIZER,))))
    seen = []
    watch = client.watch(Gadget, namespace="default", resource_version=made.metadata.resourceVersion)
    client.delete(Gadget, "held", namespace="default")
    client.patch(
        Gadget, "held", {"metadata": {"finalizers": None}}, namespace="default", patch_type=PatchType.MERGE
    )
    for event, obj in watch:
        seen.append((event, obj.metadata.deletionTimestamp is not None))
        if event == "DELETED":
            break
    assert seen == [("MODIFIED", True), ("DELETED", True)]
