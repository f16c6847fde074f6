"""What tests of the engine speak through: one request at a time, straight into `handle`."""

import datetime
import random
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import define, field

from informers.transport import Response
from reconcile.embedded import ApiRequest, ApiServer, WatchStream
from reconcile.embedded.durable.data_folder import DataFolder
from tests.helpers import definitions
from tests.helpers.definitions import ANYTHING, INTEGER, SCALE, STRING, object_of

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"


@define
class StillClock:
    """A clock that a test moves by hand, with seeded chance."""

    moment: datetime.datetime = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    chance: random.Random = field(factory=lambda: random.Random(7))

    def now(self) -> datetime.datetime:
        return self.moment

    def random(self) -> float:
        return self.chance.random()

    def suspended(self) -> float:
        return 0.0

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.chance.getrandbits(128), version=4)

    def advance(self, seconds: float) -> None:
        self.moment += datetime.timedelta(seconds=seconds)


@define
class Answer:
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def causes(self) -> list[tuple[str, str]]:
        return [(cause.get("reason", ""), cause.get("field", "")) for cause in self.body["details"]["causes"]]

    @property
    def version(self) -> str:
        version: str = self.body["metadata"]["resourceVersion"]
        return version


def decoded(answer: Response | WatchStream) -> Answer:
    assert isinstance(answer, Response)
    text = answer.headers["content-type"].startswith("text/")
    body = answer.body.decode() if text else msgspec.json.decode(answer.body)
    return Answer(answer.status, body, answer.headers)


@define
class Api:
    """One embedded server with a hand-moved clock, and the definition of widgets in it."""

    clock: StillClock = field(factory=StillClock)
    history: int = 100_000
    data: DataFolder | None = None
    server: ApiServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = ApiServer(clock=self.clock, history=self.history, data=self.data)
        if self.server.resources.by_kind("example.com", "Widget") is None:
            self.ok("POST", DEFINITIONS, definition())

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answer:
        return decoded(self.raw(method, path, body, query, content_type, **headers))

    def ok(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        answer = self.send(method, path, body, **more)
        assert answer.status < 300, answer.body
        answered: dict[str, Any] = answer.body
        return answered

    def settled(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """As `ok`, and then all that the server does of itself."""
        answered = self.ok(method, path, body, **more)
        self.server.settle()
        return answered

    def gone(self, path: str) -> bool:
        return self.send("GET", path).status == 404

    def merge(self, path: str, body: Any, **more: Any) -> dict[str, Any]:
        return self.ok("PATCH", path, body, content_type=MERGE, **more)

    def watch(self, path: str, **query: str) -> WatchStream:
        watch = self.raw("GET", path, None, {"watch": "true", **query})
        assert isinstance(watch, WatchStream), watch.body
        return watch

    def raw(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str] | None,
        content_type: str = "application/json",
        **headers: str,
    ) -> Response | WatchStream:
        encoded = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"content-type": content_type, "user-agent": "test", **headers}
        return self.server.handle(ApiRequest(method, path, query or {}, sent, encoded))


def events(watch: WatchStream) -> list[tuple[str, dict[str, Any]]]:
    """What there is to take, decoded."""
    decoded = [msgspec.json.decode(line) for line in watch.take()]
    return [(event["type"], event["object"]) for event in decoded]


def names(watch: WatchStream) -> list[tuple[str, str]]:
    """What there is to take, as types and names."""
    return [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)]


def widget(name: str = "a", *, spec: Mapping[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": dict(spec or {}),
    }


def config_map(name: str = "a", data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": dict(data or {})}


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "app", "image": "app:1", **fields}


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [container()], **spec}}


def owned_by(owner: Mapping[str, Any], *, blocking: bool = False) -> list[dict[str, Any]]:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return [{**reference, "blockOwnerDeletion": True} if blocking else reference]


def definition(**spec: Any) -> dict[str, Any]:
    size, color = {**INTEGER, "minimum": 0}, {**STRING, "default": "red"}
    properties = object_of(size=size, color=color, replicas=INTEGER)
    made = definitions.definition(
        "Widget",
        object_of(spec=properties, status=ANYTHING),
        subresources={"status": {}, "scale": SCALE},
        selectableFields=[{"jsonPath": ".spec.color"}],
    )
    whole = made["spec"] | spec
    return {**made, "metadata": {"name": f"{whole['names']['plural']}.{whole['group']}"}, "spec": whole}
