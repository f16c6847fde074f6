"""Owners that go by the hundred take their dependents along, those that come late too."""

from reconcile import ObjectMeta, OwnerReference
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient

MANY = 501
"""One more than the departed owners that the collector remembers."""


async def test_dependents_of_more_deleted_owners_than_are_remembered_are_all_collected() -> None:
    client = FakeClient()
    owners = [await client.create(ConfigMap(metadata=ObjectMeta(f"o-{n}", "default"))) for n in range(MANY)]

    def child(name: str, owner: ConfigMap) -> ConfigMap:
        reference = OwnerReference("v1", "ConfigMap", owner.name, owner.uid)
        return ConfigMap(metadata=ObjectMeta(name, "default", owner_references=(reference,)))

    for number, owner in enumerate(owners):
        await client.create(child(f"c-{number}", owner))
    for owner in owners:
        await client.delete(owner)
    assert not await client.list(ConfigMap, "default")
    await client.create(child("late", owners[0]))
    assert not await client.list(ConfigMap, "default")
