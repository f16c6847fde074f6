"""Each write is one value that the observers of a client get, step by step and in their order."""

from typing import Any

import pytest
from attrs import define, field

from informers import Key
from reconcile import Client, ObjectMeta, kind_of
from reconcile.client.client import bound
from reconcile.client.own_writes import Journal
from reconcile.client.patch_types import PatchName
from reconcile.errors import AlreadyExists, PreconditionFailed, StaleVersion
from reconcile.kinds import ConfigMap, Deployment
from reconcile.runs.write_events import Answered, Failed, Sent, WriteObserver
from reconcile.testing import FakeClient
from tests.helpers.deployments import deployment

CONFIG = kind_of(ConfigMap).resource
KEY = Key("default", "a")


def config(name: str = "a") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name, "default"), data={"x": "1"})


@define
class Noting(WriteObserver):
    name: str
    steps: list[Any]
    refuses: bool = field(default=False)

    def sent(self, sent: Sent) -> None:
        self.steps.append((self.name, "sent", sent))
        if self.refuses:
            raise PermissionError(self.name)

    def answered(self, answered: Answered) -> None:
        self.steps.append((self.name, "answered", answered.sent))

    def failed(self, failed: Failed) -> None:
        self.steps.append((self.name, type(failed.error).__name__, failed.sent))


def observed(fake: FakeClient, *observers: WriteObserver) -> Client:
    return bound(fake, Journal(), observers=observers)


async def test_each_step_of_a_write_reaches_all_observers_before_the_next_step() -> None:
    steps: list[Any] = []
    client = observed(FakeClient(), Noting("first", steps), Noting("second", steps))
    await client.create(config())
    with pytest.raises(AlreadyExists):
        await client.create(config())
    assert [step[:2] for step in steps] == [
        ("first", "sent"),
        ("second", "sent"),
        ("first", "answered"),
        ("second", "answered"),
        ("first", "sent"),
        ("second", "sent"),
        ("first", "AlreadyExists"),
        ("second", "AlreadyExists"),
    ]
    assert len({id(step[2]) for step in steps}) == 2


async def test_a_write_that_an_observer_refuses_is_not_sent_and_has_no_final_step() -> None:
    steps: list[Any] = []
    fake = FakeClient()
    client = observed(fake, Noting("first", steps), Noting("second", steps, refuses=True))
    with pytest.raises(PermissionError):
        await client.create(config())
    assert [step[:2] for step in steps] == [("first", "sent"), ("second", "sent")]
    assert fake.transport.requests == []


@pytest.mark.parametrize(
    ("patch_type", "patch"),
    [("merge", {"data": {"x": "2"}}), ("json", [{"op": "replace", "path": "/data/x", "value": "2"}])],
)
async def test_a_patch_of_each_type_applies_to_the_state_that_its_guard_names(
    patch_type: PatchName, patch: Any
) -> None:
    client = FakeClient(config())
    old = await client.get(ConfigMap, "a", "default")
    await client.raw.merge(old, {"metadata": {"labels": {"l": "1"}}})
    stale = {"uid": old.uid, "resourceVersion": old.metadata.resource_version}
    for guard, error in ((stale, StaleVersion), ({"uid": "another"}, PreconditionFailed)):
        with pytest.raises(error):
            await client.raw.patch(CONFIG, KEY, patch, guard=guard, patch_type=patch_type)
    written = await client.raw.patch(CONFIG, KEY, patch, guard={"uid": old.uid}, patch_type=patch_type)
    assert written.to_dict()["data"] == {"x": "2"}


async def test_a_strategic_patch_merges_the_containers_of_a_deployment_by_name() -> None:
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    client = FakeClient(deployment("a", containers=containers))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}}}
    resource = kind_of(Deployment).resource
    written = await client.raw.patch(resource, KEY, patch, guard={}, patch_type="strategic")
    images = [one["image"] for one in written.to_dict()["spec"]["template"]["spec"]["containers"]]
    assert sorted(images) == ["a:1", "b:2"]
