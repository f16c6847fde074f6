"""The operator's tests: which namespaces get and keep a copy, and that no fault leaves one behind."""

import os

from certificates import SecretRef, SharedCertificate, SharedCertificateSpec, certificates

from reconcile import LabelSelector, ObjectMeta
from reconcile.kinds import Namespace, Secret
from reconcile.testing import Apply, Delete, Edit, FakeClient, Scenario, World, run_once, sweep

RUNS = int(os.environ.get("SWEEP_RUNS", "15")) or None  # of the sweep; 0: all
WEB = {"tier": "web"}
SHARED = SharedCertificate(
    metadata=ObjectMeta("site"),
    spec=SharedCertificateSpec(SecretRef("vault", "site-tls"), LabelSelector(WEB)),
)


def namespace(name: str, labels: dict[str, str] = WEB) -> Namespace:
    return Namespace(metadata=ObjectMeta(name, labels=labels))


def secret(where: str, data: str = "b2xk") -> Secret:
    return Secret(metadata=ObjectMeta("site-tls", where), data={"tls.crt": data})


def a_cluster(*more: Secret) -> FakeClient:
    spaces = namespace("a"), namespace("b"), namespace("c", {}), namespace("vault")
    return FakeClient(*spaces, secret("vault"), *more, SHARED)


async def places(client: FakeClient) -> list[str]:
    return sorted(one.namespace for one in await client.list(Secret) if one.name == "site-tls")


async def test_matching_namespaces_get_a_copy() -> None:
    client = a_cluster()
    done = await run_once(certificates, SHARED, client)
    assert done.writes == [
        "apply secrets a/site-tls",
        "apply secrets b/site-tls",
        "patch sharedcertificates/status site",
    ]
    assert done.undeclared == []  # `reconcile manifests` allows all that it wrote
    assert (await run_once(certificates, SHARED, client)).writes == []


async def test_a_namespace_that_no_longer_matches_loses_its_copy() -> None:
    client = a_cluster()
    await run_once(certificates, SHARED, client)
    await client.modify(Namespace, "a", "", lambda found: found.with_metadata(labels={}))
    done = await run_once(certificates, SHARED, client)
    assert done.writes == ["delete secrets a/site-tls", "patch sharedcertificates/status site"]
    assert done.undeclared == []
    assert await places(client) == ["b", "vault"]


async def test_a_foreign_secret_is_not_overwritten() -> None:
    client = a_cluster(secret("b", "dGhlaXJz"))
    done = await run_once(certificates, SHARED, client)
    assert (done.conditions["Ready"]["reason"], done.conditions["Ready"]["message"]) == ("Taken", "b")
    assert (await client.get(Secret, "site-tls", "b")).data == {"tls.crt": "dGhlaXJz"}
    assert done.result.requeue_after == 60


async def test_copies_stay_while_the_source_is_missing() -> None:
    client = a_cluster()
    await run_once(certificates, SHARED, client)
    await client.delete(await client.get(Secret, "site-tls", "vault"))
    done = await run_once(certificates, SHARED, client)
    assert done.conditions["Ready"]["reason"] == "NoSecret"
    assert await places(client) == ["a", "b"]


async def test_copies_are_deleted_with_the_object() -> None:
    client = a_cluster()
    await run_once(certificates, SHARED, client)
    await client.delete(await client.get(SharedCertificate, "site"))
    assert await places(client) == ["vault"]


def copies_are_where_they_shall_be(world: World) -> None:
    shared = world.find(SharedCertificate, "site", "") is not None
    chosen = {one.name for one in world.objects(Namespace) if one.metadata.labels.get("tier") == "web"}
    held = {one.namespace: one.data for one in world.objects(Secret) if one.name == "site-tls"}
    source = held.pop("vault")
    assert held == dict.fromkeys(chosen if shared else (), source)


def test_a_certificate_survives_every_fault() -> None:
    label, unlabel = {"metadata": {"labels": WEB}}, {"metadata": {"labels": {"tier": None}}}
    spaces = [namespace("a"), namespace("b"), namespace("c", {}), namespace("vault", {})]
    scenario = Scenario(
        controllers=lambda: certificates,
        objects=[*spaces, secret("vault")],
        steps=[
            Apply(SHARED),
            Edit((Namespace, "c"), label),
            Edit((Namespace, "a"), unlabel),
            Apply(secret("vault", "bmV3")),
            Delete((Secret, "b/site-tls")),
            Delete(SHARED),
        ],
        invariants=[copies_are_where_they_shall_be],
    )
    print(sweep(scenario, most=RUNS))
