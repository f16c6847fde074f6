"""A server that keeps v1 of things and serves v1alpha1 through a converter of the test."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from attrs import define, field

from informers.transport import Response
from reconcile.embedded import ApiRequest, ApiServer, ConversionRequest, WatchStream
from tests.embedded.api_client import DEFINITIONS, MERGE, Api
from tests.embedded.versioned_things import collection, thing, things, version

NEW, OLD = collection("v1"), collection("v1alpha1")
DEFINED = f"{DEFINITIONS}/things.shop.example.com"
SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready"}}
OLD_SCALE = {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"}}
Change = Callable[[dict[str, Any]], Any]


@define
class Renaming:
    """Calls `spec.size` of v1alpha1 `spec.replicas` in v1, once it is `open`, and then does `change`."""

    opened: anyio.Event = field(factory=anyio.Event)
    asked: list[tuple[str, dict[str, Any]]] = field(factory=list)
    change: Change = field(default=lambda obj: None)

    async def __call__(self, request: ConversionRequest) -> list[dict[str, Any]]:
        (obj,) = request.objects
        self.asked.append((request.api_version, msgspec.json.decode(msgspec.json.encode(obj))))
        await self.opened.wait()
        before, after = ("size", "replicas") if request.api_version.endswith("/v1") else ("replicas", "size")
        if before in obj.get("spec", {}):
            obj["spec"][after] = obj["spec"].pop(before)
        obj["apiVersion"] = request.api_version
        made = self.change(obj)
        return [obj] if made is None else made


@define
class Converting:
    """A server that keeps v1 and serves v1alpha1 through a converter which waits."""

    converter: Renaming = field(factory=Renaming)
    api: Api = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.api = Api()
        self.api.server = ApiServer(clock=self.api.clock, converter=self.converter)
        old = version("v1alpha1", "note", "size", subresources={"status": {}, **OLD_SCALE})
        new = version("v1", "note", "replicas", subresources={"status": {}, **SCALE})
        for one, name in ((old, "size"), (new, "replicas")):
            one["selectableFields"] = [{"jsonPath": f".spec.{name}"}]
        definition = things(old, new)
        definition["spec"]["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://here/convert"}},
        }
        self.api.ok("POST", DEFINITIONS, definition)

    async def send(self, method: str, path: str, body: Any = None, kind: str = MERGE, **query: str) -> Any:
        encoded = b"" if body is None else msgspec.json.encode(body)
        kind = kind if method == "PATCH" else "application/json"
        answer = await self.api.server.respond(
            ApiRequest(method, path, query, {"content-type": kind}, encoded)
        )
        if isinstance(answer, WatchStream):
            return answer
        assert isinstance(answer, Response)
        return answer.status, msgspec.json.decode(answer.body)

    async def begin(self, method: str, path: str, body: Any = None, **more: Any) -> asyncio.Task[Any]:
        """Send a request, and return when the converter has been asked about it."""
        asked = len(self.converter.asked)
        task = asyncio.create_task(self.send(method, path, body, **more))
        while len(self.converter.asked) == asked:
            assert not task.done(), task.result()
            await anyio.lowlevel.checkpoint()
        return task

    async def end(self, task: asyncio.Task[Any]) -> tuple[int, dict[str, Any]]:
        self.converter.opened.set()
        answer: tuple[int, dict[str, Any]] = await task
        return answer

    def make(self, **spec: int) -> dict[str, Any]:
        return self.api.ok("POST", NEW, thing("v1", **spec))


def move_storage(api: Api) -> Any:
    """Moves the storage to v1alpha1, and returns that version."""
    old, new = api.ok("GET", DEFINED)["spec"]["versions"]
    old["storage"], new["storage"] = True, False
    api.merge(DEFINED, {"spec": {"versions": [old, new]}})
    return old


def drop_new_version(api: Api) -> None:
    """Leaves v1alpha1 alone in the definition, though objects may be stored in v1."""
    old = move_storage(api)
    api.merge(f"{DEFINED}/status", {"status": {"storedVersions": ["v1alpha1"]}})
    api.merge(DEFINED, {"spec": {"versions": [old]}})
