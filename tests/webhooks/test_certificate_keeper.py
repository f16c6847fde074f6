"""Certificates of the operator's own: through every rotation, death and skewed clock no call is refused."""

import datetime
import os
import ssl
from collections.abc import Awaitable, Callable

import anyio
import pytest
from attrs import evolve

from reconcile.kinds import Secret
from reconcile.manager.certificate_keeper import CertificateKeeper, NotReady, kept_certificate
from reconcile.models import ObjectMeta, unstructured_kind
from reconcile.testing import simulate
from reconcile.webhooks.certificate_authority import new_authority, new_leaf
from reconcile.webhooks.certificate_secret import SECRET_TYPE, UnusableSecret, read_secret, secret_data
from tests.helpers.sweeps import sweep_runs
from tests.webhooks.rotation_world import OBJECTS, SECRET, SERVICE, Death, RotationWorld, refusal

EVENT = unstructured_kind("events.k8s.io/v1", "Event", plural="events")
EVERY = 100
ROTATIONS = sweep_runs(8) or EVERY
"""Of the hundred; 0: all."""
WRITES = 10
"""So many writes, at least, all replicas together send in a rotation; each is a step at which one may die."""

LEAF_DUE = 62 * 86_400
"""After so many seconds a leaf is due, and after four times as many a CA."""


async def until_steady(world: RotationWorld, former: str, within: float = 1200.0) -> None:
    with anyio.fail_after(within):
        while True:
            stored = await world.stored()
            bundles = set((await world.bundles()).values())
            if stored.upcoming is None and stored.current.certificate != former and len(bundles) == 1:
                return
            await anyio.sleep(5)


@pytest.mark.timeout(3600 if "SWEEP_RUNS" in os.environ else 60)
def test_no_call_is_refused_in_rotations_in_each_of_which_one_replica_dies() -> None:
    world = RotationWorld()
    met: list[str] = []

    async def run() -> None:
        await world.prepare()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                world.start(group)
            await anyio.sleep(30)
            await until_steady(world, "")
            await anyio.sleep(90)
            group.start_soon(world.call)
            for turn in range(ROTATIONS):
                former = (await world.stored()).current.certificate
                for _ in range(3):
                    world.clock.advance(LEAF_DUE)
                    await anyio.sleep(45)
                world.death = Death(at=turn // 2 % WRITES + 1, before=turn % 2 == 0)
                world.clock.advance(LEAF_DUE)
                await until_steady(world, former)
                met.append(world.death.met)
                for victim in [one for one in world.replicas if not one.alive]:
                    world.replicas.remove(victim)
                    world.start(group)
                await anyio.sleep(90)
            group.cancel_scope.cancel()

    simulate(run, limit_seconds=None)
    refused = len(world.calls.refused)
    print(f"\n{ROTATIONS} of {EVERY} rotations and deaths, {world.calls.made:,} calls, {refused} refused")
    assert (world.calls.refused, world.calls.without_endpoint) == ([], 0)
    assert all(met)


Scenario = Callable[[RotationWorld], Awaitable[None]]


def played(scenario: Scenario, *, seconds: float = 3000.0) -> None:
    world = RotationWorld()

    async def run() -> None:
        await world.prepare()
        await scenario(world)

    simulate(run, limit_seconds=seconds)


def keeper(world: RotationWorld, identity: str = "") -> CertificateKeeper:
    return CertificateKeeper(world.client, SERVICE, OBJECTS, identity)


def test_each_certificate_is_reported_with_the_end_of_its_validity() -> None:
    async def scenario(world: RotationWorld) -> None:
        ends: list[datetime.datetime] = []
        one = CertificateKeeper(world.client, SERVICE, OBJECTS, on_shown=ends.append)
        await trusting(world, one)
        world.clock.advance(LEAF_DUE)
        await one.look()
        await one.look()
        assert [round((end - world.clock.now()) / datetime.timedelta(days=1)) for end in ends] == [28, 90]

    played(scenario)


async def trusting(world: RotationWorld, one: CertificateKeeper) -> None:
    await one.start()
    await one.look()
    await one.look()


def test_the_first_replica_makes_the_secret_and_has_every_object_trust_its_ca() -> None:
    async def scenario(world: RotationWorld) -> None:
        first = keeper(world)
        with pytest.raises(NotReady, match="no certificate"):
            first.check_ready()
        await first.start()
        with pytest.raises(NotReady, match="not known yet"):
            first.check_ready()
        await trusting(world, first)
        first.check_ready()
        leaf = (await world.stored()).leaf.certificate
        bundles = await world.bundles()
        assert len(bundles) == 5
        assert [refusal(leaf, bundle, world.clock.now()) for bundle in bundles.values()] == [""] * 5

    played(scenario)


def test_a_replica_is_not_ready_while_an_object_does_not_trust_its_ca() -> None:
    async def scenario(world: RotationWorld) -> None:
        one = keeper(world)
        await trusting(world, one)
        body = await world.object(OBJECTS[0])
        body["webhooks"][1]["clientConfig"]["caBundle"] = ""
        await world.client.raw.update(await world.client.raw.unstructured(body), whole=True)
        await one.look()
        with pytest.raises(NotReady, match=f"not trusted by {OBJECTS[0]}"):
            one.check_ready()
        await one.look()
        one.check_ready()

    played(scenario)


def test_webhooks_of_another_service_keep_their_bundles() -> None:
    async def scenario(world: RotationWorld) -> None:
        body = await world.object(OBJECTS[0])
        other = {"service": {"name": "other", "namespace": "shop"}, "caBundle": ""}
        body["webhooks"][1]["clientConfig"] = other
        await world.client.raw.update(await world.client.raw.unstructured(body), whole=True)
        one = keeper(world)
        await trusting(world, one)
        first, second = (await world.object(OBJECTS[0]))["webhooks"]
        assert first["clientConfig"]["caBundle"]
        assert not second["clientConfig"].get("caBundle")

    played(scenario)


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        ("Opaque", {}, "its type is 'Opaque'"),
        (SECRET_TYPE, {"ca.crt": "Z2FyYmFnZQ=="}, "ca.crt: it is not a certificate in PEM"),
        (SECRET_TYPE, {"tls.crt": "%"}, "tls.crt is not text"),
        (SECRET_TYPE, {"tls.key": None}, "it has no tls.key"),
        (SECRET_TYPE, {"members.json": "W10="}, "members.json is not a list of replicas"),
    ],
)
def test_a_secret_of_another_type_or_a_damaged_one_is_refused_and_left_as_it_is(
    kind: str, change: dict[str, str | None], problem: str
) -> None:
    async def scenario(world: RotationWorld) -> None:
        other = RotationWorld()
        await other.prepare()
        await keeper(other).start()
        data = {**secret_data(await other.stored()), **change}
        data = {name: text for name, text in data.items() if text is not None}
        foreign = Secret(metadata=ObjectMeta(SECRET, SERVICE.namespace), type=kind, data=data)
        if "%" in data.values():
            with pytest.raises(UnusableSecret, match=problem):
                read_secret(foreign)
            return
        made = await world.client.create(foreign)
        with pytest.raises(UnusableSecret, match=problem) as failure:
            await keeper(world).start()
        assert "delete it if nothing else uses it" in str(failure.value)
        found = await world.client.get(Secret, SECRET, SERVICE.namespace)
        assert found.metadata.resource_version == made.metadata.resource_version

    played(scenario)


def test_a_leaf_of_another_ca_makes_the_secret_unusable() -> None:
    async def scenario(world: RotationWorld) -> None:
        await keeper(world).start()
        stored, now = await world.stored(), world.clock.now()
        damaged = evolve(stored, leaf=new_leaf(new_authority(now), ("a.b.svc",), now))
        secret = await world.client.get(Secret, SECRET, SERVICE.namespace)
        with pytest.raises(UnusableSecret, match=r"tls\.crt: no CA beside it has signed it"):
            read_secret(secret.replace(data=secret_data(damaged)))

    played(scenario)


def test_a_secret_that_is_deleted_in_use_is_made_anew_with_a_rotation_and_no_refused_call() -> None:
    async def scenario(world: RotationWorld) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                world.start(group)
            await anyio.sleep(120)
            group.start_soon(world.call)
            former = (await world.stored()).current.certificate
            await world.client.delete(await world.client.get(Secret, SECRET, SERVICE.namespace))
            await anyio.sleep(30)
            await until_steady(world, former)
            await anyio.sleep(60)
            assert (world.calls.refused, world.calls.without_endpoint) == ([], 0)
            group.cancel_scope.cancel()

    played(scenario)


def test_a_replica_that_leaves_takes_its_entry_along() -> None:
    async def scenario(world: RotationWorld) -> None:
        one, two = keeper(world, "one"), keeper(world, "two")
        await one.start()
        await two.start()
        await one.leave()
        assert set((await world.stored()).members) == {"two"}

    played(scenario)


def test_a_replica_out_of_touch_stays_ready_unless_a_rotation_may_have_passed_it_by() -> None:
    async def scenario(world: RotationWorld) -> None:
        one = keeper(world)
        await trusting(world, one)
        await anyio.sleep(600)
        one.check_ready()
        world.clock.advance(250 * 86_400)
        with pytest.raises(NotReady, match="a rotation may be under way"):
            one.check_ready()

    played(scenario)


def test_an_operator_that_was_off_until_its_ca_had_ended_gets_a_new_one() -> None:
    async def scenario(world: RotationWorld) -> None:
        first = keeper(world, "first")
        await trusting(world, first)
        former = (await world.stored()).current.certificate
        await first.leave()
        world.clock.advance(400 * 86_400)
        async with anyio.create_task_group() as group:
            later = world.start(group)
            await until_steady(world, former)
            later.keeper.check_ready()
            bundles = (await world.bundles()).values()
            assert [refusal(later.leaf, bundle, world.clock.now()) for bundle in bundles] == [""] * 5
            group.cancel_scope.cancel()

    played(scenario)


def test_events_of_the_secret_tell_what_becomes_of_the_certificates() -> None:
    async def scenario(world: RotationWorld) -> None:
        async with anyio.create_task_group() as group:
            world.start(group)
            await anyio.sleep(30)
            former = (await world.stored()).current.certificate
            world.clock.advance(LEAF_DUE)
            await anyio.sleep(30)
            world.clock.advance(3 * LEAF_DUE)
            await until_steady(world, former)
            secret = await world.client.get(Secret, SECRET, SERVICE.namespace)
            await world.client.raw.update(secret.replace(data={}), whole=True)
            await anyio.sleep(30)
            group.cancel_scope.cancel()
        found = await world.client.list(EVENT, namespace=SERVICE.namespace)
        told = [(one["reason"], one["note"]) for one in sorted(found, key=lambda one: str(one["eventTime"]))]
        assert {one["regarding"]["uid"] for one in found} == {secret.uid}
        (*changes, (reason, note)) = told
        assert changes == [
            ("CertificatesCreated", "for shop-webhooks.shop.svc"),
            ("CertificatesChanged", "a new certificate was made, of the same CA"),
            ("CertificatesChanged", "a new CA was made, which all that call the webhooks are to trust"),
            ("CertificatesChanged", "a new certificate was made, of the new CA"),
            ("CertificatesChanged", "the former CA is no longer trusted"),
        ]
        assert (reason, "it has no ca.crt" in note) == ("CertificatesNotKept", True)

    played(scenario)


def test_an_unexpected_error_ends_one_look_and_not_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: RotationWorld) -> None:
        async with kept_certificate(world.client, SERVICE, OBJECTS) as one:
            with monkeypatch.context() as patched:
                patched.setattr(CertificateKeeper, "look", broken)
                await anyio.sleep(60)
                with pytest.raises(NotReady):
                    one.check_ready()
            await anyio.sleep(120)
            one.check_ready()
        assert (await world.stored()).members == {}

    played(scenario)


async def broken(one: CertificateKeeper) -> bool:
    raise ValueError("not expected")


def test_no_log_line_and_no_representation_has_a_key(caplog: pytest.LogCaptureFixture) -> None:
    shown: list[str] = []

    async def scenario(world: RotationWorld) -> None:
        one = keeper(world)
        await trusting(world, one)
        shown.extend([repr(one), repr(await world.stored())])

    caplog.set_level("DEBUG")
    played(scenario)
    assert "PRIVATE KEY" not in caplog.text + "".join(shown)


def handshake(server: ssl.SSLContext, bundle: str) -> None:
    """As an API server does it. Raises ssl.SSLError."""
    client = ssl.create_default_context(cadata=bundle)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=SERVICE.host_names[0]),
    ]
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    sides[0].write(b"x")
    assert sides[1].read(1) == b"x"


def test_tls_handshakes_succeed_through_a_rotation_without_a_new_context() -> None:
    handshakes = 0

    async def scenario(world: RotationWorld) -> None:
        nonlocal handshakes
        # OpenSSL compares validity with the time of the machine.
        world.clock.start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=250)
        async with anyio.create_task_group() as group:
            one = world.start(group)
            await anyio.sleep(5)
            context = one.keeper.context
            for _ in range(4):
                world.clock.advance(LEAF_DUE)
                await anyio.sleep(45)
            former = ""
            while not former or (await world.stored()).upcoming is not None:
                former = former or (await world.stored()).current.certificate
                handshake(context, (await world.stored()).bundle)
                handshakes += 1
                await anyio.sleep(2)
            handshake(context, (await world.stored()).current.certificate)
            with pytest.raises(ssl.SSLError):
                handshake(context, former)
            group.cancel_scope.cancel()

    played(scenario)
    assert handshakes > 10
