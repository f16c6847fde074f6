"""The registry secrets of a manager at work, woken by what happens, on late watches."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from controllers.registrysecrets import KuberoPipeline, definition
from controllers.registrysecrets.models import PipelinePhase
from reconcile import ObjectMeta
from reconcile.kinds import Namespace, Secret
from reconcile.simulation import Delays
from reconcile.testing import FaultyTransport, simulate
from tests.controllers.pipelines import (
    COPIES,
    DOCKER,
    controller,
    copies,
    docker_config,
    pipeline,
    respec,
    said,
    source,
)
from tests.controllers.world import NAMESPACE, World, world
from tests.helpers.scenarios import in_world


def played(scenario: Callable[[World, FaultyTransport], Awaitable[None]], seed: int = 0) -> None:
    async def run() -> None:
        async with world(seed, definition(), delays=Delays()) as here, here.running(controller) as recorded:
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
@in_world(played, parts=2)
async def test_a_late_source_is_copied_on_its_event_without_polling(
    here: World, recorded: FaultyTransport, seed: int
) -> None:
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


@pytest.mark.rule("kubero-5d-03")
@pytest.mark.parametrize("seed", range(3))
@in_world(played, parts=2)
async def test_a_rotated_source_is_written_to_each_copy_once(
    here: World, recorded: FaultyTransport, seed: int
) -> None:
    first = await here.user.create(source())
    await here.user.create(pipeline())
    await anyio.sleep(5)
    patch = {"data": {DOCKER: docker_config("rotated")}}
    done = await written(recorded, lambda: here.user.raw.merge(first, patch, guard={}))
    assert done == ["patch shop-production"] * 2 + ["patch shop-test"] * 2
    login = (await copies(here.user))["shop-test", "registry-credentials"]
    assert base64.b64decode(login.data["password"]) == b"rotated"


@pytest.mark.rule("kubero-5d-04")
@in_world(played, parts=2)
async def test_when_the_source_is_deleted_the_copies_stay_and_the_condition_says_why(
    here: World, recorded: FaultyTransport
) -> None:
    first = await here.user.create(source())
    await here.user.create(pipeline())
    await anyio.sleep(5)
    before = await copies(here.user)
    assert await written(recorded, lambda: here.user.delete(first)) == []
    assert {key: dict(one.data) for key, one in (await copies(here.user)).items()} == {
        key: dict(one.data) for key, one in before.items()
    }
    missed = await here.user.get(KuberoPipeline, "shop", NAMESPACE)
    assert said(missed)["SourceFound"] == "NotFound"


@pytest.mark.rule("kubero-5d-05")
@in_world(played, parts=2)
async def test_a_disabled_phase_loses_its_copies_and_an_enabled_one_gets_its_own(
    here: World, recorded: FaultyTransport
) -> None:
    await here.user.create(source())
    await here.user.create(pipeline())
    await anyio.sleep(5)
    phases = (
        PipelinePhase("test"),
        PipelinePhase("production", enabled=True),
        PipelinePhase("review", enabled=True),
    )
    change = respec(phases=phases)
    done = await written(recorded, lambda: here.user.modify(KuberoPipeline, "shop", NAMESPACE, change))
    assert done == ["create shop-review"] * 2 + ["delete shop-test"] * 2
    assert {namespace for namespace, _ in await copies(here.user)} == {"shop-production", "shop-review"}


@pytest.mark.rule("kubero-5d-08")
@pytest.mark.parametrize("seed", range(3))
@in_world(played, parts=2)
async def test_a_manually_edited_copy_is_repaired_once_and_a_deleted_one_recreated(
    here: World, recorded: FaultyTransport, seed: int
) -> None:
    await here.user.create(source())
    await here.user.create(pipeline("test"))
    await anyio.sleep(5)
    login = (await copies(here.user))["shop-test", "registry-credentials"]
    edit = {"data": {"password": "eA=="}}
    done = await written(recorded, lambda: here.user.raw.merge(login, edit, guard={}))
    assert done == ["patch shop-test"]
    done = await written(recorded, lambda: here.user.delete(login))
    assert done == ["create shop-test"]


@pytest.mark.rule("kubero-5d-07")
@in_world(played, parts=2)
async def test_when_a_foreign_secret_is_deleted_the_copy_takes_its_place(
    here: World, recorded: FaultyTransport
) -> None:
    await here.user.create(Namespace(metadata=ObjectMeta("shop-test")))
    theirs = await here.user.create(Secret(metadata=ObjectMeta("kubero-pull-secret", "shop-test")))
    await here.user.create(source())
    await here.user.create(pipeline("test"))
    await anyio.sleep(30)
    assert await written(recorded, lambda: here.user.delete(theirs)) == ["create shop-test"]


@pytest.mark.rule("kubero-5d-11")
@pytest.mark.parametrize("seed", range(3))
@in_world(played, parts=2)
async def test_a_namespace_that_is_being_deleted_is_waited_for_without_an_error_loop(
    here: World, recorded: FaultyTransport, seed: int
) -> None:
    await here.user.create(source())
    held = ObjectMeta("held", "shop-test", finalizers=("example.com/wait",))
    await here.user.create(Namespace(metadata=ObjectMeta("shop-test")))
    holding = await here.user.create(Secret(metadata=held))
    await here.user.delete(Namespace(metadata=ObjectMeta("shop-test")))
    await here.user.create(pipeline("test"))
    await anyio.sleep(5)
    assert await written(recorded, lambda: anyio.sleep(300)) == []
    waiting = await here.user.get(KuberoPipeline, "shop", NAMESPACE)
    assert said(waiting)["Ready"] == "Waiting"
    patch: dict[str, Any] = {"metadata": {"finalizers": None}}
    await here.user.raw.merge(holding, patch, guard={})
    await anyio.sleep(5)
    assert set(await copies(here.user)) == {("shop-test", name) for name in COPIES}


@pytest.mark.rule("kubero-5d-09")
@in_world(played, parts=2)
async def test_two_pipelines_with_one_source_share_one_watch(here: World, recorded: FaultyTransport) -> None:
    await here.user.create(source())
    await here.user.create(pipeline("test"))
    await here.user.create(pipeline("test", name="blog"))
    await anyio.sleep(5)
    assert {namespace for namespace, _ in await copies(here.user)} == {"shop-test", "blog-test"}
    watches = [request.path for request in recorded.requests if request.verb == "watch"]
    assert watches.count("/api/v1/secrets") == 1
    assert len(watches) == 3


@pytest.mark.rule("kubero-5d-11")
@in_world(played, parts=2)
async def test_a_namespace_deleted_unseen_while_a_copy_is_created_is_waited_for_without_an_error(
    here: World, recorded: FaultyTransport
) -> None:
    """The cache says that it is there, and the server that it is going."""
    await here.user.create(Namespace(metadata=ObjectMeta("shop-test")))
    held = ObjectMeta("held", "shop-test", finalizers=("example.com/wait",))
    holding = await here.user.create(Secret(metadata=held))
    await here.user.create(pipeline("test"))
    await anyio.sleep(5)
    await here.user.create(source())
    await here.user.delete(Namespace(metadata=ObjectMeta("shop-test")))
    await anyio.sleep(5)
    waiting = await here.user.get(KuberoPipeline, "shop", NAMESPACE)
    assert said(waiting)["Ready"] == "Waiting"
    assert not [event for event in recorded.writes if "WriteFailed" in str(event.body)]
    await here.user.raw.merge(holding, {"metadata": {"finalizers": None}}, guard={})
    await anyio.sleep(5)
    assert set(await copies(here.user)) == {("shop-test", name) for name in COPIES}
