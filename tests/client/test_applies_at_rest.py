"""What holds is not applied again, however many objects there are, and whichever process applied it."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from informers import InformerOptions, Key
from reconcile import Client, Intent, ObjectMeta, kind_of
from reconcile.kinds import (
    ConfigMap,
    Container,
    ContainerPort,
    Deployment,
    DeploymentSpec,
    EnvVar,
    LabelSelector,
    Namespace,
    PodSpec,
    PodTemplate,
    ResourceRequirements,
    Volume,
    VolumeMount,
)
from reconcile.models import Quantity
from reconcile.testing import FakeClient
from tests.client.cached_client import applies, cached, refresh

pytestmark = pytest.mark.rule("write-7")

CONFIG = kind_of(ConfigMap).resource
DEPLOYMENT = kind_of(Deployment).resource
MANY = 10_001
"""One more than were once remembered."""


def config(name: str = "c", **data: str) -> Intent[ConfigMap]:
    return Intent(ConfigMap, metadata=ObjectMeta(name, "default", labels={"app": name}), data=data)


def deployment(image: str = "i", **spec: Any) -> Intent[Deployment]:
    """Of this a server writes the size of the volume in its own words."""
    container = {"name": "c", "image": image}
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], "volumes": [volume]}}
    return Intent(
        Deployment,
        metadata=ObjectMeta("d", "default"),
        spec=DeploymentSpec(selector=LabelSelector({"a": "b"}), template=template, **spec),
    )


async def all_applied(client: Client, intents: Iterable[Intent[Any]]) -> None:
    for intent in intents:
        await client.apply(intent)


# --- many -------------------------------------------------------------------------------------------


async def test_for_ten_thousand_children_applied_by_another_process_no_apply_is_sent() -> None:
    fake = FakeClient()
    await fake.with_options(field_manager="mine").apply(config("c-number", x="number"))
    (made,) = fake.request("GET", CONFIG.path("default"))["items"]
    text = msgspec.json.encode(made)
    client = cached(fake, CONFIG)
    assert client.cache is not None
    informer = client.cache.informer(CONFIG)
    children = [
        informer._read(text.replace(b"c-number", b"c-%d" % n).replace(b'"number"', b'"%d"' % n))
        for n in range(MANY)
    ]
    informer.store.replace(children, children[0].version)
    sent = len(fake.transport.requests)
    for _ in range(2):
        await all_applied(client, [config(f"c-{n}", x=str(n)) for n in range(MANY)])
    assert len(fake.transport.requests) == sent
    await client.apply(config("c-1", x="1", y="2"))
    assert len(fake.transport.requests) == sent + 1


async def test_an_object_returned_as_it_was_sent_takes_no_memory_beyond_its_mark() -> None:
    fake = FakeClient()
    client = cached(fake, CONFIG)
    intents = [config(f"c-{number}", x=str(number)) for number in range(100)]
    for _ in range(3):
        await all_applied(client, intents)
        refresh(fake, client)
    assert len(fake.transport.requests) == 100
    assert client.cache is not None
    store = client.cache.informer(CONFIG).store
    assert not any(store.noted(snapshot.key) for snapshot in store)
    assert {sys.getsizeof(snapshot.applied) for snapshot in store} == {48}


async def test_an_intent_that_the_server_normalises_is_applied_once_by_each_process() -> None:
    fake = FakeClient()
    client = cached(fake, DEPLOYMENT)
    for _ in range(3):
        await client.apply(deployment())
        fake.request("PATCH", DEPLOYMENT.path("default", "d", "status"), {"status": {"replicas": 1}})
        refresh(fake, client)
    assert applies(fake) == 1
    restarted = cached(fake, DEPLOYMENT)
    for number in range(3):
        await restarted.apply(deployment())
        status = {"status": {"observedGeneration": number}}
        fake.request("PATCH", DEPLOYMENT.path("default", "d", "status"), status)
        refresh(fake, restarted)
    assert applies(fake) == 2


async def test_server_defaults_in_a_typed_pod_template_cause_no_further_apply() -> None:
    # Whole, since it is atomic: a default in it would be a change of what was applied.
    named = {"apiVersion": "v1", "fieldPath": "metadata.name"}
    main = Container(
        "main",
        image="i",
        env=(EnvVar("EMPTY"), EnvVar("POD", value_from={"fieldRef": named})),
        ports=(ContainerPort(80),),
        resources=ResourceRequirements(limits={"cpu": Quantity("1000m"), "memory": Quantity("1024Mi")}),
        volume_mounts=(VolumeMount("cache", "/cache"),),
        readiness_probe={"httpGet": {"port": 80}},
    )
    pod = PodSpec((main,), volumes=(Volume("cache", empty_dir={}),))
    template = PodTemplate(ObjectMeta(labels={"a": "b"}), pod)
    intent = Intent(
        Deployment,
        metadata=ObjectMeta("d", "default"),
        spec=DeploymentSpec(LabelSelector({"a": "b"}), template),
    )
    fake = FakeClient()
    client = cached(fake, DEPLOYMENT)
    await client.apply(intent)
    refresh(fake, client)
    restarted = cached(fake, DEPLOYMENT)
    live = await restarted.apply(intent)
    assert applies(fake) == 1
    stored = live.spec.template.spec.containers[0]
    assert (stored.name, stored.ports[0].container_port) == ("main", 80)
    assert stored.resources.limits == {"cpu": Quantity("1"), "memory": Quantity("1Gi")}


async def test_knowledge_about_an_object_is_dropped_with_it() -> None:
    fake = FakeClient()
    client = cached(fake, DEPLOYMENT)
    assert client.cache is not None
    store = client.cache.informer(DEPLOYMENT).store
    await client.apply(deployment())
    refresh(fake, client)
    assert len(store.noted(Key("default", "d"))) == 30
    await client.apply(deployment("other"))
    assert len(store.noted(Key("default", "d"))) == 30
    await fake.delete(await fake.get(Deployment, "d", "default"))
    refresh(fake, client)
    assert store.noted(Key("default", "d")) == b""
    await client.apply(deployment("other"))
    assert applies(fake) == 3


# --- what is applied all the same -----------------------------------------------------------------------


@pytest.mark.parametrize("cache", [True, False])
async def test_fields_of_a_former_manager_are_handed_over_even_if_the_intent_holds(cache: bool) -> None:
    fake = FakeClient()
    await fake.with_options(field_manager="former").apply(config(x="1", dropped="2"))
    await fake.with_options(field_manager="mine").apply(config(x="1"))  # and then the process was killed
    client = cached(fake, *([CONFIG] if cache else []), former=["former"])
    assert (await client.apply(config(x="1"))).data == {"x": "1"}


# --- objects that are marked late, or not at all --------------------------------------------------------


async def test_a_kind_that_no_controller_declares_is_applied_once_by_each_process() -> None:
    fake = FakeClient()
    await fake.with_options(field_manager="mine").apply(config(x="1"))
    client = cached(fake, CONFIG, declared=False)
    for _ in range(3):
        await client.apply(config(x="1"))
        refresh(fake, client)
    assert applies(fake) == 2
    assert (await client.apply(config())).data == {}
    refresh(fake, client)
    await client.apply(config())
    assert applies(fake) == 3


@pytest.mark.parametrize("declared", [True, False])
async def test_an_intent_without_fields_creates_an_object_and_is_then_skipped(declared: bool) -> None:
    fake = FakeClient()
    names = kind_of(Namespace).resource
    await cached(fake, names).apply(Intent(Namespace, metadata=ObjectMeta("n")))
    client = cached(fake, names, declared=declared)
    for _ in range(3):
        await client.apply(Intent(Namespace, metadata=ObjectMeta("n")))
        refresh(fake, client)
    assert applies(fake) == (1 if declared else 2)


@pytest.mark.parametrize(
    "options",
    [
        InformerOptions(labels="app=another"),
        InformerOptions(metadata_only=True),
        InformerOptions(drop=("/metadata/managedFields", "/data")),
        InformerOptions(transform=lambda obj: {**obj, "data": {}}),
    ],
)
async def test_an_object_of_which_the_cache_drops_parts_is_read_instead_of_applied(
    options: InformerOptions,
) -> None:
    fake = FakeClient()
    client = cached(fake, CONFIG, options=options)
    for _ in range(3):
        assert (await client.apply(config(x="1"))).data == {"x": "1"}
        refresh(fake, client)
    assert applies(fake) == 1
    fake.request("PATCH", CONFIG.path("default", "c"), {"data": {"x": "drifted"}})
    refresh(fake, client)
    assert (await client.apply(config(x="1"))).data == {"x": "1"}
