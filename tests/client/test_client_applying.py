"""Intents: what is applied, what is left out, and who gives way to whom."""

from typing import Any

import msgspec
import pytest

from informers import Key, Snapshot
from informers.applied import Appliers
from reconcile import Client, ObjectMeta
from reconcile.client.apply_marks import REMEMBERED, AppliedIntents, ApplyKey, intent_of
from reconcile.errors import OwnedByOther
from reconcile.kinds import ConfigMap, Deployment, Namespace
from reconcile.models import kind_of
from reconcile.testing import FakeClient
from tests.client.cached_client import applies
from tests.helpers.deployments import deployment
from tests.helpers.managers import Toy, ToySpec, ToyStatus


def config(**data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta("c", "default"), data=data)


# --- when an intent holds -----------------------------------------------------------------------------------

PLACE = ApplyKey(kind_of(ConfigMap).resource, Key("default", "c"), "m")
INTENT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "1", "y": "2"}}
MARK = PLACE.mark(INTENT)
OWNED = {"f:data": {"f:x": {}, "f:y": {}}}


def stored(owned: dict[str, Any] | None, **data: str) -> Snapshot:
    """What a server has of which `m` applied these fields."""
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": owned}
    metadata = {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "4"}
    body = {"metadata": {**metadata, "managedFields": [entry] if owned else []}, "data": {"x": "1", **data}}
    return Snapshot.from_json(msgspec.json.encode(body), appliers=Appliers("v1", ["m"]))


@pytest.mark.rule("write-7")
@pytest.mark.parametrize(
    ("intent", "cached", "holds"),
    [
        (INTENT, stored(OWNED, y="2"), True),
        (INTENT, stored(OWNED, y="2", z="foreign"), True),
        (INTENT, stored(OWNED, y="3"), False),
        (INTENT, stored({"f:data": {"f:x": {}}}, y="2"), False),
        (INTENT, stored(None, y="2"), False),
        ({**INTENT, "data": {"x": "1"}}, stored(OWNED, y="2"), False),
        ({**INTENT, "data": {"y": "2", "x": "1"}}, stored(OWNED, y="2"), True),
    ],
)
def test_an_intent_holds_if_its_manager_applied_it_and_none_of_it_has_changed(
    intent: dict[str, Any], cached: Snapshot, holds: bool
) -> None:
    intents = AppliedIntents()
    assert intents.holds(PLACE.mark(intent), cached) == holds
    assert not intents.holds(PLACE._replace(field_manager="n").mark(intent), cached)
    assert not intents.holds(PLACE._replace(subresource="status").mark(intent), cached)


def test_an_empty_intent_holds_only_if_every_apply_would_have_been_seen() -> None:
    nothing = PLACE.mark({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    intents = AppliedIntents()
    assert intents.holds(nothing, stored(None))
    assert not intents.holds(nothing, stored(None), saw_all=False)
    assert not intents.holds(nothing, stored(OWNED, y="2"))


def test_without_a_cache_the_last_ten_thousand_objects_are_remembered() -> None:
    intents = AppliedIntents()
    places = [PLACE._replace(key=Key("default", str(number))) for number in range(REMEMBERED + 1)]
    for place in places:
        intents.applied(place, INTENT, stored(OWNED, y="2"), None)
    known = [bool(intents.remembers(place, MARK)) for place in (places[0], places[1], places[-1])]
    assert known == [False, True, True]
    assert not intents.remembers(places[1], PLACE.mark({"data": {"x": "2"}}))


@pytest.mark.parametrize(
    ("intent", "learned"),
    [
        (INTENT, False),  # the server tells nothing of its fields, so nothing would tell of drift
        ({"metadata": {"name": "c", "labels": {}}}, False),
        ({"metadata": {"name": "c"}}, True),
        ({"metadata": {"name": "c"}, "spec": {"ports": []}}, True),
    ],
)
def test_an_answer_without_managed_fields_is_not_remembered_for_an_intent_with_fields(
    intent: dict[str, Any], learned: bool
) -> None:
    intents = AppliedIntents()
    intents.applied(PLACE, intent, stored(None, y="2"), None)
    assert bool(intents.remembers(PLACE, PLACE.mark(intent))) is learned


# --- what is an intent --------------------------------------------------------------------------------------


def test_an_intent_has_either_the_status_or_all_but_the_status_and_its_identity() -> None:
    labelled = ObjectMeta("a", "default", labels={"l": "v"})
    toy = Toy(metadata=labelled, spec=ToySpec(3), status=ToyStatus(2))
    head = {"apiVersion": "toys.example.com/v1", "kind": "Toy"}
    name = {"name": "a", "namespace": "default"}
    assert intent_of(toy, "") == {**head, "metadata": {**name, "labels": {"l": "v"}}, "spec": {"size": 3}}
    assert intent_of(toy, "status") == {**head, "metadata": name, "status": {"size": 2, "conditions": []}}
    assert intent_of(Namespace(metadata=ObjectMeta("n")), "status") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n"},
        "status": {"phase": ""},
    }
    assert intent_of(config(a="1"), "status")["status"] == {}


@pytest.mark.rule("write-6")
def test_the_refusal_of_an_object_that_was_read_explains_what_to_do() -> None:
    with pytest.raises(TypeError) as refused:
        intent_of(ConfigMap(metadata=ObjectMeta("c", "default", uid="u", generation=2)), "")
    assert str(refused.value) == (
        "apply takes an intent, and ConfigMap 'default/c' was read from a server (it has uid, generation): "
        "applying it would claim the fields of every other writer. Build an object of the fields that you "
        "want, or change what is there with modify() or editing()"
    )


@pytest.mark.rule("write-6")
async def test_an_object_that_was_read_is_refused_as_an_intent() -> None:
    client = FakeClient()
    await client.apply(config(a="1"))
    read = await client.get(ConfigMap, "c", "default")
    with pytest.raises(TypeError, match=r"uid, resourceVersion.*Build an object of the fields that you want"):
        await client.apply(read)
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    manifest["metadata"]["managedFields"] = [{"manager": "m"}]  # type: ignore[index]
    with pytest.raises(TypeError, match="managedFields"):
        await client.apply(manifest)
    assert applies(client) == 1


async def test_a_manifest_with_an_empty_creation_time_is_an_intent() -> None:
    metadata = {"name": "c", "namespace": "default", "creationTimestamp": None}
    made = await FakeClient().apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert made.name == "c"


async def test_a_client_without_a_cache_applies_what_it_has_not_applied_before() -> None:
    client = FakeClient()
    await client.apply(config(a="1", b="2"))
    restarted = Client(client.transport, clock=client.clock)
    await restarted.apply(config(a="1"))
    assert (await client.get(ConfigMap, "c", "default")).data == {"a": "1"}


async def test_two_field_managers_with_the_same_intent_each_apply_it() -> None:
    client = FakeClient()
    one, two = client.with_options(field_manager="one"), client.with_options(field_manager="two")
    await one.apply(config(a="1"))
    await two.apply(config(a="1"))
    await one.apply(config())
    assert (await client.get(ConfigMap, "c", "default")).data == {"a": "1"}


@pytest.mark.rule("write-7")
async def test_drift_is_repaired_while_unrelated_foreign_changes_cause_no_apply() -> None:
    client = FakeClient()
    await client.apply(deployment(replicas=2))
    path = "/apis/apps/v1/namespaces/default/deployments/d"
    for second in range(5):
        client.request("PATCH", f"{path}/status", {"status": {"replicas": 9, "readyReplicas": second}})
        await client.apply(deployment(replicas=2))
    assert applies(client) == 1
    client.request("PATCH", path, {"spec": {"replicas": 7}})
    live = await client.apply(deployment(replicas=2))
    assert (applies(client), live["spec"]["replicas"]) == (2, 2)


async def test_a_value_that_the_server_normalises_is_not_drift() -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}}
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container]},
    }
    client = FakeClient()
    await client.apply(manifest)
    for number in range(3):
        labels = {"metadata": {"labels": {"n": str(number)}}}
        client.request("PATCH", "/api/v1/namespaces/default/pods/p", labels)
        await client.apply(manifest)
    assert applies(client) == 1


async def test_unforced_fields_are_left_to_their_owner_and_all_others_taken_over() -> None:
    client = FakeClient()
    scaler = client.with_options(field_manager="scaler")
    await scaler.apply(deployment(replicas=5))
    with pytest.raises(OwnedByOther, match="scaler"):
        await client.apply(deployment(replicas=2), unforced=[".spec.replicas"])
    assert (await client.get(Deployment, "d", "default")).spec.replicas == 5
    taken = await client.apply(deployment(replicas=2), unforced=[".spec.paused"])
    assert taken["spec"]["replicas"] == 2


async def test_an_unforced_field_without_an_owner_is_applied() -> None:
    client = FakeClient()
    made = await client.apply(deployment(replicas=2), unforced=[".spec.replicas"])
    assert made["spec"]["replicas"] == 2
    assert applies(client) == 1


async def test_a_status_is_applied_by_itself() -> None:
    client = FakeClient()
    await client.apply(deployment(replicas=2))
    intent = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"replicas": 9},
        "status": {"replicas": 2, "readyReplicas": 1},
    }
    await client.apply(intent, subresource="status")
    live = await client.get(Deployment, "d", "default")
    assert (live.spec.replicas, live.status.ready_replicas) == (2, 1)


async def test_a_dry_run_is_validated_but_neither_executed_nor_remembered() -> None:
    client = FakeClient()
    dry = client.with_options(dry_run=True)
    assert (await dry.apply(config(a="1"))).data == {"a": "1"}
    assert await client.find(ConfigMap, "c", "default") is None
    await client.apply(config(a="1"))
    assert (await client.get(ConfigMap, "c", "default")).data == {"a": "1"}
    await dry.delete(await client.get(ConfigMap, "c", "default"))
    assert await client.find(ConfigMap, "c", "default") is not None
