"""The controller of registry secrets on a server: one pass at a time, and woken by what happens."""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import structlog
from attrs import evolve

from controllers.registrysecrets import KuberoPipeline, KuberoPipelineSpec, controller, definition
from controllers.registrysecrets.controller import secrets_of
from controllers.registrysecrets.models import Phase, Registry
from reconcile import Key, ObjectMeta, encode
from reconcile.kinds import Event, Namespace, Secret
from reconcile.nodes import Delays
from reconcile.testing import (
    FakeClient,
    Fault,
    FaultPlan,
    FaultyTransport,
    Pass,
    Refuse,
    When,
    run_once,
    simulate,
)
from tests.controllers.world import NAMESPACE, World, world

PASSWORD = "correct-horse"
DOCKER = ".dockerconfigjson"
COPIES = {"kubero-pull-secret", "registry-credentials"}


def docker_config(password: str = PASSWORD) -> str:
    login = {"auths": {"registry.example.com": {"username": "ci", "password": password}}}
    return base64.b64encode(json.dumps(login).encode()).decode()


def source(password: str = PASSWORD, namespace: str = NAMESPACE) -> Secret:
    return Secret(
        metadata=ObjectMeta("registry-login", namespace),
        type="kubernetes.io/dockerconfigjson",
        data={DOCKER: docker_config(password)},
    )


def pipeline(*phases: str, name: str = "shop", mode: str = "copy", **spec: Any) -> KuberoPipeline:
    given = KuberoPipelineSpec(
        mainnamespace=NAMESPACE,
        registry=Registry(create_secret=mode, host="registry.example.com"),
        phases=tuple(Phase(phase, enabled=True) for phase in phases or ("test", "production")),
    )
    return KuberoPipeline(metadata=ObjectMeta(name, NAMESPACE), spec=evolve(given, **spec))


async def once(client: FakeClient) -> Pass:
    return await run_once(controller, f"{NAMESPACE}/shop", client)


async def copies(client: Any) -> dict[tuple[str, str], Secret]:
    return {secret.key: secret for secret in await client.list(Secret) if secret.name in COPIES}


def respec(**changes: Any) -> Callable[[KuberoPipeline], KuberoPipeline]:
    def change(old: KuberoPipeline) -> KuberoPipeline:
        return KuberoPipeline(metadata=old.metadata, spec=evolve(old.spec, **changes), status=old.status)

    return change


# One pass at a time.


@pytest.mark.rule("kubero-5d-12")
async def test_each_enabled_phase_gets_its_namespace_and_both_secrets() -> None:
    client = FakeClient(source(), pipeline())
    made = await once(client)
    assert made.error is None
    found = await copies(client)
    assert set(found) == {(f"shop-{phase}", name) for phase in ("test", "production") for name in COPIES}
    pull = found["shop-test", "kubero-pull-secret"]
    assert (pull.type, dict(pull.data)) == ("kubernetes.io/dockerconfigjson", {DOCKER: docker_config()})
    login = found["shop-test", "registry-credentials"]
    assert {k: base64.b64decode(v).decode() for k, v in login.data.items()} == {
        "username": "ci",
        "password": PASSWORD,
    }
    assert {name: one["status"] for name, one in made.conditions.items()} == {
        "Ready": "True",
        "SourceFound": "True",
        "Conflict": "False",
    }


@pytest.mark.rule("kubero-5d-01")
async def test_a_hundred_passes_over_an_unchanged_pipeline_write_nothing() -> None:
    client = FakeClient(source(), pipeline())
    await once(client)
    sent = len(client.transport.writes)
    for _ in range(100):
        assert (await once(client)).writes == []
    assert len(client.transport.writes) == sent


async def test_the_finalizer_is_added_and_cleanup_takes_the_copies_away_in_other_namespaces() -> None:
    client = FakeClient(source(), pipeline())
    await once(client)
    stored = await client.get(KuberoPipeline, "shop", NAMESPACE)
    assert stored.metadata.finalizers == (controller.finalizer,)
    await client.delete(stored)
    assert await copies(client) != {}
    await once(client)
    assert await copies(client) == {}
    assert await client.find(KuberoPipeline, "shop", NAMESPACE) is None
    assert await client.find(Secret, "registry-login", NAMESPACE) is not None


async def test_a_pipeline_with_a_spec_that_has_no_meaning_says_so_and_can_still_go() -> None:
    client = FakeClient(source(), pipeline(phases=(Phase("", enabled=True),)))
    made = await once(client)
    assert (made.error, made.conditions["Ready"]["reason"]) == (None, "InvalidSpec")
    again = await once(client)
    assert (again.writes, again.events) == ([], [])
    await client.delete(await client.get(KuberoPipeline, "shop", NAMESPACE))
    await once(client)
    assert await client.find(KuberoPipeline, "shop", NAMESPACE) is None


@pytest.mark.rule("kubero-5d-07")
async def test_a_foreign_secret_is_a_conflict_told_once_and_stays_as_it_is() -> None:
    theirs = Secret(metadata=ObjectMeta("kubero-pull-secret", "shop-test"), data={"mine": "YQ=="})
    client = FakeClient(source(), pipeline("test"), theirs)
    made = await once(client)
    assert made.conditions["Conflict"]["status"] == "True"
    assert made.conditions["Ready"]["reason"] == "ForeignSecret"
    assert len([event for event in made.events if event.startswith("Warning")]) == 1
    again = await once(client)
    assert (again.writes, again.events) == ([], [])
    assert dict((await copies(client))["shop-test", "kubero-pull-secret"].data) == {"mine": "YQ=="}


@pytest.mark.rule("kubero-5d-06")
async def test_the_mode_create_is_refused_without_touching_copies_and_none_removes_them() -> None:
    client = FakeClient(source(), pipeline("test"))
    await once(client)
    await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(registry=Registry(create_secret="create")))
    refused = await once(client)
    assert refused.conditions["Ready"]["reason"] == "ModeNotSupported"
    assert len(await copies(client)) == 2
    await client.modify(KuberoPipeline, "shop", NAMESPACE, respec(registry=Registry(create_secret="none")))
    await once(client)
    assert await copies(client) == {}


@pytest.mark.rule("kubero-5d-13")
async def test_a_copy_of_another_type_is_deleted_and_made_again() -> None:
    client = FakeClient(source(), pipeline("test"))
    await once(client)
    right = (await copies(client))["shop-test", "kubero-pull-secret"]
    await client.delete(right)
    await client.create(Secret(metadata=ObjectMeta(right.name, "shop-test", labels=right.metadata.labels)))
    made = await once(client)
    assert made.writes[:2] == [
        "delete secrets shop-test/kubero-pull-secret",
        "create secrets shop-test/kubero-pull-secret",
    ]
    mended = (await copies(client))["shop-test", "kubero-pull-secret"]
    assert (mended.type, dict(mended.data)) == (right.type, dict(right.data))


async def test_a_hand_edit_is_undone_key_by_key_and_other_labels_stay() -> None:
    client = FakeClient(source(), pipeline("test"))
    await once(client)
    login = (await copies(client))["shop-test", "registry-credentials"]
    edit = {"data": {"password": "eA==", "extra": "eA=="}, "metadata": {"labels": {"team": "blue"}}}
    await client.merge(login, edit, guard={})
    made = await once(client)
    # The status names the same version of the source as before, so nothing else is written.
    assert made.writes == ["patch secrets shop-test/registry-credentials"]
    mended = (await copies(client))["shop-test", "registry-credentials"]
    assert dict(mended.data) == dict(login.data)
    assert mended.metadata.labels["team"] == "blue"


async def test_no_value_of_a_secret_is_said_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    quoting = Refuse(
        422, "Invalid", f"Secret is invalid: data: Invalid value: {PASSWORD!r} {docker_config()}"
    )
    plan = FaultPlan((Fault(When("create", "*/secrets", nth=2), quoting),))
    client = FakeClient(source(), pipeline(), plan=plan)
    with structlog.testing.capture_logs() as logs:
        failed = await once(client)
        passed = await once(client)
    assert failed.conditions["Ready"]["reason"] == "WriteFailed"
    assert failed.retry
    stored = await client.get(KuberoPipeline, "shop", NAMESPACE)
    events = [encode(event) for event in await client.list(Event, NAMESPACE)]
    said = json.dumps([encode(stored), events, [str(x) for x in logs], str(failed), str(passed)], default=str)
    secrets = (PASSWORD, docker_config(), base64.b64encode(PASSWORD.encode()).decode())
    assert not [value for value in secrets if value in said]
    assert PASSWORD not in capsys.readouterr().out


def test_a_pipeline_names_its_source_and_the_places_of_its_copies() -> None:
    one = KuberoPipeline(metadata=ObjectMeta("shop", NAMESPACE, uid="u"), spec=pipeline("test").spec)
    assert set(secrets_of(one)) == {
        Key(NAMESPACE, "registry-login"),
        Key("shop-test", "kubero-pull-secret"),
        Key("shop-test", "registry-credentials"),
    }


# Woken by what happens, on late watches.


def played(scenario: Callable[[World, FaultyTransport], Awaitable[None]], seed: int = 0) -> None:
    async def run() -> None:
        async with (
            world(seed, definition(), delays=Delays()) as here,
            here.running(controller) as recorded,
        ):
            await scenario(here, recorded)

    simulate(run, seed=seed)


async def written(recorded: FaultyTransport, act: Callable[[], Awaitable[Any]]) -> list[str]:
    """The Secrets that the controller wrote within the minute after `act`."""
    before = len(recorded.writes)
    await act()
    await anyio.sleep(60)
    return sorted(
        f"{request.verb} {request.path.split('/')[4]}"
        for request in recorded.writes[before:]
        if "/secrets" in request.path
    )


@pytest.mark.rule("kubero-5d-02")
@pytest.mark.parametrize("seed", range(3))
def test_a_source_that_comes_late_is_copied_on_its_event_and_nothing_is_polled(seed: int) -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        await here.user.create(pipeline())
        await anyio.sleep(5)
        assert await copies(here.user) == {}
        waiting = await here.user.get(KuberoPipeline, "shop", NAMESPACE)
        assert {c.type: c.status for c in waiting.status.conditions}["SourceFound"] == "False"
        asked = len([request for request in recorded.requests if request.verb in ("get", "list")])
        await anyio.sleep(300)
        assert len([r for r in recorded.requests if r.verb in ("get", "list")]) == asked
        await here.user.create(source())
        await anyio.sleep(3)
        assert len(await copies(here.user)) == 4

    played(scenario, seed)


@pytest.mark.rule("kubero-5d-03")
@pytest.mark.parametrize("seed", range(3))
def test_a_rotated_source_is_written_to_each_copy_once(seed: int) -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        first = await here.user.create(source())
        await here.user.create(pipeline())
        await anyio.sleep(5)
        patch = {"data": {DOCKER: docker_config("rotated")}}
        done = await written(recorded, lambda: here.user.merge(first, patch, guard={}))
        assert done == ["patch shop-production"] * 2 + ["patch shop-test"] * 2
        login = (await copies(here.user))["shop-test", "registry-credentials"]
        assert base64.b64decode(login.data["password"]) == b"rotated"

    played(scenario, seed)


@pytest.mark.rule("kubero-5d-04")
def test_when_the_source_goes_the_copies_stay_and_the_condition_says_so() -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        first = await here.user.create(source())
        await here.user.create(pipeline())
        await anyio.sleep(5)
        before = await copies(here.user)
        assert await written(recorded, lambda: here.user.delete(first)) == []
        assert {key: dict(one.data) for key, one in (await copies(here.user)).items()} == {
            key: dict(one.data) for key, one in before.items()
        }
        said = (await here.user.get(KuberoPipeline, "shop", NAMESPACE)).status.conditions
        assert {c.type: c.reason for c in said}["SourceFound"] == "NotFound"

    played(scenario)


@pytest.mark.rule("kubero-5d-05")
def test_a_disabled_phase_loses_its_copies_and_an_enabled_one_gets_them() -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        await here.user.create(source())
        await here.user.create(pipeline())
        await anyio.sleep(5)
        phases = (Phase("test"), Phase("production", enabled=True), Phase("review", enabled=True))
        change = respec(phases=phases)
        done = await written(recorded, lambda: here.user.modify(KuberoPipeline, "shop", NAMESPACE, change))
        assert done == ["create shop-review"] * 2 + ["delete shop-test"] * 2
        assert {namespace for namespace, _ in await copies(here.user)} == {"shop-production", "shop-review"}

    played(scenario)


@pytest.mark.rule("kubero-5d-08")
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_edited_by_hand_is_repaired_once_and_a_deleted_one_made_again(seed: int) -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        await here.user.create(source())
        await here.user.create(pipeline("test"))
        await anyio.sleep(5)
        login = (await copies(here.user))["shop-test", "registry-credentials"]
        edit = {"data": {"password": "eA=="}}
        done = await written(recorded, lambda: here.user.merge(login, edit, guard={}))
        assert done == ["patch shop-test"]
        done = await written(recorded, lambda: here.user.delete(login))
        assert done == ["create shop-test"]

    played(scenario, seed)


@pytest.mark.rule("kubero-5d-07")
def test_when_the_foreign_secret_goes_the_copy_takes_its_place() -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        await here.user.create(Namespace(metadata=ObjectMeta("shop-test")))
        theirs = await here.user.create(Secret(metadata=ObjectMeta("kubero-pull-secret", "shop-test")))
        await here.user.create(source())
        await here.user.create(pipeline("test"))
        await anyio.sleep(30)
        done = await written(recorded, lambda: here.user.delete(theirs))
        assert done == ["create shop-test"]

    played(scenario)


@pytest.mark.rule("kubero-5d-11")
@pytest.mark.parametrize("seed", range(3))
def test_a_namespace_on_its_way_out_is_waited_for_without_an_error_loop(seed: int) -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        await here.user.create(source())
        held = ObjectMeta("held", "shop-test", finalizers=("example.com/wait",))
        await here.user.create(Namespace(metadata=ObjectMeta("shop-test")))
        holding = await here.user.create(Secret(metadata=held))
        await here.user.delete(Namespace(metadata=ObjectMeta("shop-test")))
        await here.user.create(pipeline("test"))
        await anyio.sleep(5)
        assert await written(recorded, lambda: anyio.sleep(300)) == []
        waiting = await here.user.get(KuberoPipeline, "shop", NAMESPACE)
        assert {c.type: c.reason for c in waiting.status.conditions}["Ready"] == "WaitingForDeletion"
        patch: dict[str, Any] = {"metadata": {"finalizers": None}}
        await here.user.merge(holding, patch, guard={})
        await anyio.sleep(5)
        assert set(await copies(here.user)) == {("shop-test", name) for name in COPIES}

    played(scenario, seed)


@pytest.mark.rule("kubero-5d-09")
def test_two_pipelines_with_one_source_share_one_watch() -> None:
    async def scenario(here: World, recorded: FaultyTransport) -> None:
        await here.user.create(source())
        await here.user.create(pipeline("test"))
        await here.user.create(pipeline("test", name="blog"))
        await anyio.sleep(5)
        assert {namespace for namespace, _ in await copies(here.user)} == {"shop-test", "blog-test"}
        watches = [request.path for request in recorded.requests if request.verb == "watch"]
        assert watches.count("/api/v1/secrets") == 1
        assert len(watches) == 3

    played(scenario)
