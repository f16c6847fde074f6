"""The operator's tests: the manifests of its users, what the original left, and every single fault."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from clustersecrets import (
    CREATED_BY,
    KOPF,
    ClusterSecret,
    ClusterSecretStatus,
    Settings,
    Synced,
    cluster_secrets,
    targets_of,
)

from reconcile import ObjectMeta
from reconcile.kinds import ConfigMap, Namespace, NamespaceStatus, Secret
from reconcile.models import unstructured_kind
from reconcile.owners import is_owned, with_owner
from reconcile.testing import (
    Apply,
    Delete,
    Edit,
    FakeClient,
    Scenario,
    World,
    explore,
    run_once,
    sweep,
    transitions,
)

RUNS = int(os.environ.get("SWEEP_RUNS", "15")) or None  # of the sweep; 0: all
MANIFESTS = Path(__file__).parent / "manifests"
HANDLED = f"{KOPF}last-handled-configuration"
OURS = cluster_secrets()
DATA = {"tls.crt": "MQ=="}
AS_JSON = unstructured_kind("clustersecret.io/v1", "ClusterSecret", namespaced=False)
SHARED = ClusterSecret(
    metadata=ObjectMeta("tls"), match_namespace=("web-",), avoid_namespaces=("web-x",), data=DATA
)


def manifests(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MANIFESTS / file).read_text()))


def namespace(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name))


def secret(where: str, name: str = "tls", **fields: Any) -> Secret:
    return Secret(metadata=ObjectMeta(name, where), **fields)


def old_copy(where: str, data: dict[str, str] = DATA) -> Secret:
    """A copy as the original made it."""
    return secret(where, data=data).with_metadata(annotations=dict([CREATED_BY]))


def a_cluster(*objects: Any) -> FakeClient:
    return FakeClient(*map(namespace, ("web-a", "web-b", "web-x", "other")), *objects)


async def places(client: FakeClient, name: str = "tls") -> list[str]:
    return sorted(one.namespace for one in await client.list(Secret) if one.name == name)


# --- manifests of users -----------------------------------------------------------------------------


async def test_the_definition_and_the_manifests_of_users_work_unchanged() -> None:
    definition, objects = manifests("definition.yaml"), manifests("objects.yaml")
    client = FakeClient(*definition)
    for name in ("anothernamespace", "clustersecret", "supersecret-ns"):
        client.add(namespace(name))
    for obj in objects:
        client.add(obj)
    for obj in objects:
        done = await run_once(OURS, obj["metadata"]["name"], client)
        assert (done.error, done.undeclared, done.conditions["Ready"]["status"]) == (None, [], "True")
        assert (await run_once(OURS, obj["metadata"]["name"], client)).writes == []
    every = {one.name for one in await client.list(Namespace)}
    assert await places(client, "global-secret") == ["anothernamespace", "clustersecret"]
    assert await places(client, "global-secret2") == ["clustersecret"]
    assert set(await places(client, "global-secret3")) == every
    assert set(await places(client, "global-regcred")) == every - {"default"}
    registry = await client.get(Secret, "global-regcred", "kube-system")
    assert (registry.type, registry.metadata.labels) == (
        "kubernetes.io/dockerconfigjson",
        {"somelabel": "somevalue"},
    )
    assert registry.metadata.annotations == {"someannotation": "somevalue", **dict([CREATED_BY])}
    value_from = await client.get(Secret, "value-from", "supersecret-ns")
    assert value_from.data == {"username": "YWRtaW4=", "password": "MWYyZDFlMmU2N2Rm"}


async def test_patterns_hold_from_the_beginning_of_a_name_as_in_the_original() -> None:
    spaces = [namespace(name) for name in ("test", "test1", "my-test")]
    active = [one.replace(status=NamespaceStatus(phase="Active")) for one in spaces]

    def chosen(*match: str, avoid: tuple[str, ...] = ()) -> list[str]:
        return targets_of(SHARED.replace(match_namespace=match, avoid_namespaces=avoid), active)

    assert chosen("test") == ["test", "test1"]
    assert chosen("test$", ".*-test") == ["my-test", "test"]
    assert chosen() == ["my-test", "test", "test1"]
    assert chosen(avoid=("test",)) == ["my-test"]


async def test_a_pattern_that_is_none_is_reported_and_nothing_is_changed() -> None:
    client = a_cluster(SHARED)
    await run_once(OURS, SHARED, client)
    await client.modify(ClusterSecret, "tls", "", lambda found: found.replace(match_namespace=("*-qa",)))
    done = await run_once(OURS, SHARED, client)
    assert done.conditions["Ready"]["reason"] == "InvalidPattern"
    assert "'*-qa'" in done.conditions["Ready"]["message"]
    assert await places(client) == ["web-a", "web-b"]


async def test_labels_are_passed_on_except_for_those_of_a_release() -> None:
    labels = {"team": "web", "app.kubernetes.io/instance": "release"}
    annotations = {"note": "n", "kopf.zalando.org/last-handled-configuration": "{}"}
    shared = SHARED.with_metadata(labels=labels, annotations=annotations)
    client = a_cluster(shared)
    await run_once(OURS, shared, client)
    copy = await client.get(Secret, "tls", "web-a")
    assert copy.metadata.labels == {"team": "web"}
    assert copy.metadata.annotations == {"note": "n", **dict([CREATED_BY])}


# --- Secrets of others ------------------------------------------------------------------------------


async def test_a_foreign_secret_stays_and_is_named() -> None:
    client = a_cluster(SHARED, secret("web-b", data={"theirs": "MQ=="}))
    done = await run_once(OURS, SHARED, client)
    assert (done.conditions["Ready"]["reason"], done.conditions["Ready"]["message"]) == ("Taken", "web-b")
    assert (await client.get(Secret, "tls", "web-b")).data == {"theirs": "MQ=="}
    assert (await client.get(ClusterSecret, "tls")).status.create_fn == Synced(("web-a",))


async def test_a_foreign_secret_is_replaced_where_the_operator_is_told_so() -> None:
    settings = Settings.of({"REPLACE_EXISTING": "true"})
    client = a_cluster(
        SHARED, secret("web-a", data={"theirs": "MQ=="}), secret("web-b", type="example.com/other")
    )
    done = await run_once(cluster_secrets(settings), SHARED, client)
    assert (done.error, done.conditions["Ready"]["reason"]) == (None, "Copied")
    for where in ("web-a", "web-b"):
        copy = await client.get(Secret, "tls", where)
        assert (copy.type, copy.data) == ("Opaque", DATA)


async def test_a_secret_that_another_object_keeps_is_never_replaced() -> None:
    client = a_cluster(SHARED, ConfigMap(metadata=ObjectMeta("keeper", "web-a")))
    keeper = await client.get(ConfigMap, "keeper", "web-a")
    client.add(with_owner(secret("web-a", data={"theirs": "MQ=="}), keeper, controller=True))
    done = await run_once(cluster_secrets(Settings(replace_existing=True)), SHARED, client)
    assert (done.error, done.conditions["Ready"]["message"]) == (None, "web-a")


# --- sources ----------------------------------------------------------------------------------------


def of(source: str, space: str = "vault", **more: Any) -> dict[str, Any]:
    return {"valueFrom": {"secretKeyRef": {"name": source, "namespace": space, **more}}}


async def test_copies_stay_while_their_source_is_missing_and_hold_the_keys_that_are_named() -> None:
    shared = SHARED.replace(data=of("origin", keys=["a"]))
    client = a_cluster(shared, secret("vault", "origin", data={"a": "MQ==", "b": "Mg=="}))
    await run_once(OURS, shared, client)
    assert (await client.get(Secret, "tls", "web-a")).data == {"a": "MQ=="}
    await client.delete(await client.get(Secret, "origin", "vault"))
    done = await run_once(OURS, shared, client)
    assert done.conditions["Ready"]["reason"] == "NoSource"
    assert await places(client) == ["web-a", "web-b"]


@pytest.mark.parametrize("odd", [None, 5, {}, {"secretKeyRef": {"name": "origin"}}])
async def test_a_source_that_names_no_secret_is_reported_and_copies_stay(odd: Any) -> None:
    client = a_cluster(SHARED)
    await run_once(OURS, SHARED, client)
    await client.modify(ClusterSecret, "tls", "", lambda found: found.replace(data={"valueFrom": odd}))
    done = await run_once(OURS, SHARED, client)
    assert done.conditions["Ready"]["message"] == "not text: valueFrom"
    assert await places(client) == ["web-a", "web-b"]


async def test_a_source_is_never_written_even_if_its_namespace_is_chosen_and_secrets_are_replaced() -> None:
    shared = SHARED.replace(data=of("tls", "web-a", keys=["a"]))
    client = a_cluster(shared, secret("web-a", data={"a": "MQ==", "b": "Mg=="}))
    await run_once(cluster_secrets(Settings(replace_existing=True)), shared, client)
    assert (await client.get(Secret, "tls", "web-a")).data == {"a": "MQ==", "b": "Mg=="}
    assert (await client.get(Secret, "tls", "web-b")).data == {"a": "MQ=="}


# --- the switch from kopf ---------------------------------------------------------------------------


def as_kopf_left(**changes: Any) -> ClusterSecret:
    status = ClusterSecretStatus(create_fn=Synced(("web-a", "web-b", "other")))
    return SHARED.replace(status=status, **changes).with_metadata(
        finalizers=(f"{KOPF}KopfFinalizerMarker",), annotations={HANDLED: '{"data": {}}', "team": "web"}
    )


async def test_copies_of_the_original_are_taken_over_and_not_made_anew() -> None:
    left = as_kopf_left()
    client = a_cluster(
        left, old_copy("web-a"), old_copy("web-b", {**DATA, "gone": "MQ=="}), old_copy("other")
    )
    before = {one.key: one.uid for one in await client.list(Secret)}
    done = await run_once(OURS, left, client)
    assert (done.error, done.undeclared) == (None, [])
    copies = await client.list(Secret)
    assert {one.key: one.uid for one in copies} == {
        key: uid for key, uid in before.items() if key[0] != "other"
    }
    shared = await client.get(ClusterSecret, "tls")
    assert [(one.data, is_owned(one, shared)) for one in copies] == [(DATA, True)] * 2
    assert shared.metadata.finalizers == (OURS.finalizer,)
    assert shared.metadata.annotations == {"team": "web"}
    assert (await run_once(OURS, left, client)).writes == []


async def test_what_kopf_keeps_in_a_status_that_is_no_subresource_goes_and_what_it_returned_stays() -> None:
    metadata = {"name": "tls", "annotations": {HANDLED: "{}"}}
    status = {"kopf": {"dummy": "2026-01-01T00:00:00"}, "create_fn": {"syncedns": ["web-a"]}}
    head = {"apiVersion": "clustersecret.io/v1", "kind": "ClusterSecret", "metadata": metadata}
    client = FakeClient(
        *manifests("definition.yaml"), {**head, "matchNamespace": ["web-a"], "data": DATA, "status": status}
    )
    client.add(namespace("web-a"))
    done = await run_once(OURS, "tls", client)
    assert (done.error, done.undeclared) == (None, [])
    found = await client.get(AS_JSON, "tls")
    assert set(found["status"]) == {"create_fn", "conditions"}
    assert "annotations" not in found["metadata"]
    assert (await run_once(OURS, "tls", client)).writes == []


async def test_what_other_programs_read_from_the_status_of_the_original_stays_where_it_was() -> None:
    left = as_kopf_left()
    client = a_cluster(left, old_copy("web-a"))
    await run_once(OURS, left, client)
    found = await client.get(AS_JSON, "tls")
    assert found["status"]["create_fn"] == {"syncedns": ("web-a", "web-b")}


async def test_copies_of_one_that_was_deleted_before_the_switch_go_and_no_other_secret() -> None:
    left = as_kopf_left()
    foreign = secret("web-b", data={"theirs": "MQ=="})
    client = a_cluster(left, old_copy("web-a"), old_copy("other"), foreign)
    await client.delete(await client.get(ClusterSecret, "tls"))
    await run_once(OURS, left, client)
    assert await places(client) == ["web-b"]
    assert await client.find(ClusterSecret, "tls") is None


# --- every fault ------------------------------------------------------------------------------------


def copies_are_where_they_shall_be(world: World) -> None:
    shared = world.find(ClusterSecret, "tls", "")
    source = world.find(Secret, "origin", "vault")
    copies = {one.namespace: (one.data, one.type) for one in world.objects(Secret) if one.name == "tls"}
    if shared is None or source is None:
        assert shared is not None or copies == {}
        return
    expected = dict.fromkeys(targets_of(shared, world.objects(Namespace)), (source.data, shared.type))
    assert copies == expected


@pytest.mark.parametrize("first", [SHARED, as_kopf_left()], ids=["ours", "of kopf"])
def test_a_cluster_secret_survives_every_fault(first: ClusterSecret) -> None:
    first = first.replace(data=of("origin"))
    scenario = Scenario(
        controllers=cluster_secrets,
        objects=[
            *map(namespace, ("web-a", "web-b", "web-x", "other", "vault")),
            secret("vault", "origin", data=DATA),
            *([old_copy("web-a", {"stale": "MQ=="}), old_copy("other")] if first.metadata.finalizers else []),
        ],
        steps=[
            Apply(first),
            Apply(namespace("web-c")),
            Edit((Secret, "vault/origin"), {"data": {"tls.crt": None, "new": "Mg=="}}),
            Edit((ClusterSecret, "tls"), {"matchNamespace": ["web-c", "other"]}),
            Edit((ClusterSecret, "tls"), {"type": "example.com/tls"}),
            Delete((Secret, "other/tls")),
            Delete((Namespace, "web-c")),
            Delete(first),
        ],
        invariants=[copies_are_where_they_shall_be],
    )
    print(sweep(scenario, most=RUNS))


SMALL = Scenario(
    controllers=cluster_secrets,
    objects=[*map(namespace, ("web-a", "other", "vault")), secret("vault", "origin", data=DATA)],
    steps=[
        Apply(SHARED.replace(data=of("origin"))),
        Edit((ClusterSecret, "tls"), {"matchNamespace": ["other"]}),
        Delete((ClusterSecret, "tls")),
    ],
    invariants=[copies_are_where_they_shall_be],
)


def test_a_cluster_secret_survives_every_order_of_what_happens_with_a_crash() -> None:
    print(explore(SMALL, objects=5))


def test_every_change_of_a_cluster_secret_is_carried_out() -> None:
    print(transitions(SMALL))


async def test_an_empty_type_is_opaque_and_makes_no_copy_anew() -> None:
    shared = SHARED.replace(type="")
    client = a_cluster(shared)
    await run_once(OURS, shared, client)
    assert (await run_once(OURS, shared, client)).writes == []
