"""Conversion webhooks over HTTPS, and what is asked of them when."""

import asyncio
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
import trustme

from informers.transport import Response
from reconcile.embedded import ApiRequest, ConversionFailed, ConversionRequest
from reconcile.models import Object, resource
from reconcile.testing import FakeClient
from tests.embedded.api_client import DEFINITIONS, MERGE, Api, events
from tests.embedded.conversion_world import DEFINED, NEW, OLD, Converting
from tests.embedded.versioned_things import thing, things, version
from tests.embedded.webhook_hosts import WebhookHost, bundle, serving

CA = trustme.CA(key_type=trustme.KeyType.ECDSA)


def converted(review: dict[str, Any]) -> dict[str, Any]:
    """The answer that renames the field of the spec."""
    asked = deepcopy(review["request"])
    names = ("size", "replicas") if asked["desiredAPIVersion"].endswith("/v1") else ("replicas", "size")
    for obj in asked["objects"]:
        obj["apiVersion"] = asked["desiredAPIVersion"]
        obj["spec"][names[1]] = obj["spec"].pop(names[0])
    result = {"status": "Success"}
    return {
        **review,
        "response": {"uid": asked["uid"], "convertedObjects": asked["objects"], "result": result},
    }


def definition(client: dict[str, Any]) -> dict[str, Any]:
    made = things(version("v1alpha1", "size"), version("v1", "replicas"))
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return made


async def send(api: Api, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    encoded = b"" if body is None else msgspec.json.encode(body)
    headers = {"content-type": "application/json"}
    answer = await api.server.respond(ApiRequest(method, path, {}, headers, encoded))
    assert isinstance(answer, Response)
    return answer.status, msgspec.json.decode(answer.body)


@pytest.fixture
async def host() -> AsyncIterator[WebhookHost]:
    host = WebhookHost(answer=converted)
    async with serving(host, CA.issue_cert("127.0.0.1")):
        yield host


async def test_the_webhook_of_a_definition_converts_over_https(host: WebhookHost) -> None:
    api = Api()
    client = {"url": f"https://127.0.0.1:{host.port}/convert", "caBundle": bundle(CA)}
    api.ok("POST", DEFINITIONS, definition(client))
    api.ok("POST", NEW, thing("v1", replicas=3))
    status, read = await send(api, "GET", f"{OLD}/a")
    assert (status, read["spec"]) == (200, {"size": 3})
    ((path, _, review),) = host.calls
    assert path == "/convert?timeout=30s"
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    assert review["request"]["desiredAPIVersion"] == "shop.example.com/v1alpha1"
    (obj,) = review["request"]["objects"]
    assert (obj["apiVersion"], obj["spec"]) == ("shop.example.com/v1", {"replicas": 3})


async def test_a_hanging_webhook_holds_up_nothing_but_what_needs_it(host: WebhookHost) -> None:
    api = Api()
    client = {"url": f"https://127.0.0.1:{host.port}/convert", "caBundle": bundle(CA)}
    api.ok("POST", DEFINITIONS, definition(client))
    api.ok("POST", NEW, thing("v1", replicas=3))
    called, released = anyio.Event(), anyio.Event()

    async def hang(review: dict[str, Any]) -> dict[str, Any]:
        called.set()
        await released.wait()
        return converted(review)

    host.answer = hang
    reading = asyncio.create_task(send(api, "GET", f"{OLD}/a"))
    await called.wait()
    assert (await send(api, "GET", f"{NEW}/a"))[0] == 200
    assert not reading.done()
    released.set()
    assert (await reading)[1]["spec"] == {"size": 3}


# --- caches -------------------------------------------------------------------------------------


@pytest.fixture
def ready() -> Converting:
    world = Converting()
    world.converter.opened.set()
    return world


async def test_a_cold_cache_asks_once_for_each_object_and_a_get_each_time(ready: Converting) -> None:
    ready.make(replicas=1)
    ready.api.ok("POST", NEW, thing("v1", "b", replicas=2))
    for _ in range(2):
        assert [item["spec"] for item in (await ready.send("GET", OLD))[1]["items"]] == [
            {"size": 1},
            {"size": 2},
        ]
    assert len(ready.converter.asked) == 2
    for _ in range(2):
        await ready.send("GET", f"{OLD}/a")
    assert len(ready.converter.asked) == 4
    await ready.send("GET", f"{OLD}/a", resourceVersion="0")
    assert len(ready.converter.asked) == 4


async def test_a_running_server_converts_when_an_object_is_written_so_that_lists_outlast_the_webhook(
    ready: Converting,
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(ready.api.server.run)
        ready.make(replicas=1)
        await asked(ready, 1)
        ready.api.merge(f"{NEW}/a", {"spec": {"replicas": 2}})
        await asked(ready, 2)
        ready.converter.change = down
        assert [item["spec"] for item in (await ready.send("GET", OLD))[1]["items"]] == [{"size": 2}]
        assert (await ready.send("GET", f"{OLD}/a"))[0] == 500
        group.cancel_scope.cancel()


async def test_a_silent_watch_goes_on_once_the_webhook_is_back(
    ready: Converting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconcile.embedded.controllers.waiting_work.RETRY", 0.001)
    async with anyio.create_task_group() as group:
        group.start_soon(ready.api.server.run)
        watch = await ready.send("GET", OLD, watch="true")
        ready.converter.change = down
        ready.make(replicas=1)
        await asked(ready, 3)
        assert watch.take() == []
        ready.converter.change = lambda obj: None
        with anyio.fail_after(5):
            await watch.wait()
        assert [obj["spec"] for _, obj in events(watch)] == [{"size": 1}]
        watch.close()
        group.cancel_scope.cancel()


async def asked(world: Converting, times: int) -> None:
    """Return when the converter has been asked so many times."""
    with anyio.fail_after(5):
        while len(world.converter.asked) < times:
            await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()


def down(obj: dict[str, Any]) -> None:
    raise ConversionFailed("down")


async def test_a_changed_definition_starts_with_cold_caches(ready: Converting) -> None:
    ready.make(replicas=1)
    await ready.send("GET", OLD)
    names = ready.api.ok("GET", DEFINED)["spec"]["names"]
    ready.api.merge(DEFINED, {"spec": {"names": {**names, "shortNames": ["th"]}}})
    await ready.send("GET", OLD)
    assert len(ready.converter.asked) == 2


@pytest.mark.parametrize(("method", "spec"), [("PATCH", {"note": 1}), ("DELETE", None)])
async def test_a_client_that_goes_away_during_a_conversion_changes_nothing(
    method: str, spec: dict[str, int] | None
) -> None:
    world = Converting()
    made = world.make(replicas=3)
    task = await world.begin(method, f"{OLD}/a", None if spec is None else {"spec": spec})
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.converter.opened.set()
    assert world.api.ok("GET", f"{NEW}/a") == made
    assert (await world.send("GET", f"{OLD}/a"))[0] == 200


# --- stored versions ----------------------------------------------------------------------------


def test_stored_versions_may_be_anything_but_always_have_the_storage_version(ready: Converting) -> None:
    status = ready.api.merge(f"{DEFINED}/status", {"status": {"storedVersions": ["v0"]}})["status"]
    assert status["storedVersions"] == ["v0", "v1"]
    refused = ready.api.send(
        "PATCH",
        DEFINED,
        {"spec": {"names": {"shortNames": ["t"]}}},
        content_type="application/merge-patch+json",
    )
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "status.storedVersions[0]")])


def test_a_version_in_which_objects_may_be_stored_cannot_be_dropped(ready: Converting) -> None:
    old, new = ready.api.ok("GET", DEFINED)["spec"]["versions"]
    moved = [{**old, "storage": True}, {**new, "storage": False}]
    ready.api.merge(DEFINED, {"spec": {"versions": moved}})
    patch = {"spec": {"versions": moved[:1]}}
    refused = ready.api.send("PATCH", DEFINED, patch, content_type=MERGE)
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "status.storedVersions[0]")])


# --- in a unit test -------------------------------------------------------------------------------


@resource("shop.example.com/v1alpha1", kind="Thing")
class OldThing(Object):
    pass


async def test_a_fake_client_runs_the_converter_of_its_author() -> None:
    asked: list[str] = []

    async def convert(request: ConversionRequest) -> list[dict[str, Any]]:
        asked.append(request.api_version)
        if not request.objects:
            raise ConversionFailed("nothing to convert")
        return [{**obj, "apiVersion": request.api_version} for obj in request.objects]

    client = FakeClient(
        definition({"url": "https://nowhere.invalid/convert"}), thing("v1", replicas=1), converter=convert
    )
    assert (await client.get(OldThing, "a", "default")).name == "a"
    assert asked == ["shop.example.com/v1alpha1"]
