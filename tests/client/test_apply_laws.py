"""An apply is left out exactly if sending it would change nothing, whatever happened to the object before."""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from informers import APIResource, Cache, InformerOptions, Key
from reconcile import Client
from reconcile.embedded import ApiRequest, ApiServer
from reconcile.testing import FakeClient
from tests.helpers.definitions import definition, object_of

pytestmark = pytest.mark.timeout(300)  # 150 histories of up to ten acts each, on a busy machine

GADGETS = APIResource("example.com", "v1", "Gadget", "gadgets")
KEY = Key("default", "a")
PATH = GADGETS.path(*KEY)
SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "color": {"type": "string", "default": "red"},
        "settings": {"type": "object", "additionalProperties": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "args": {"type": "array", "items": {"type": "string"}},
        "blob": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"},
                },
            },
        },
    },
}
STATUS = {"type": "object", "properties": {"phase": {"type": "string"}, "count": {"type": "integer"}}}
DEFINITION = definition("Gadget", object_of(spec=SPEC, status=STATUS))


class Gadgets:
    """One gadget on a server, and the client of an operator whose cache has it, with all that is news."""

    def __init__(self, **options: Any) -> None:
        self.fake = FakeClient(DEFINITION)
        self.fake._make_namespace("default")
        self.options = InformerOptions(**options)
        self.restart()

    @property
    def server(self) -> ApiServer:
        return self.fake.server

    def restart(self) -> None:
        """Another process takes over."""
        self.cache = Cache(self.fake.transport, clock=self.fake.clock, defaults=self.options)
        self.cache.declare(GADGETS).mark_applies("mine")
        self.client = Client(
            self.fake.transport, cache=self.cache, clock=self.fake.clock, field_manager="mine"
        )
        self.refresh()

    def refresh(self) -> None:
        """The cache hears of everything."""
        informer = self.cache.informer(GADGETS)
        listed = self.fake.request("GET", GADGETS.path())
        items = [informer._read(msgspec.json.encode(item)) for item in listed["items"]]
        informer.store.replace(items, int(listed["metadata"]["resourceVersion"]))

    def metadata(self) -> dict[str, Any]:
        answer = self.server.handle(ApiRequest("GET", PATH))
        found: dict[str, Any] = msgspec.json.decode(answer.body)["metadata"]  # type: ignore[union-attr]
        return found

    def version(self) -> str:
        return str(self.metadata().get("resourceVersion", ""))

    def apply(self, manager: str, intent: Mapping[str, Any], subresource: str = "") -> None:
        """What a client without any memory sends."""
        query = {"fieldManager": manager, "force": "true"}
        headers = {"content-type": "application/apply-patch+yaml"}
        path = f"{PATH}/{subresource}" if subresource else PATH
        answer = self.server.handle(ApiRequest("PATCH", path, query, headers, msgspec.json.encode(intent)))
        assert answer.status in (200, 201), answer.body  # type: ignore[union-attr]

    def update(self, change: Mapping[str, Any]) -> None:
        """Somebody else writes without applying."""
        if self.version():
            self.fake.request("PATCH", PATH, change)

    async def applied(self, intent: Mapping[str, Any], subresource: str = "") -> bool:
        """Whether the operator sent it."""
        sent = len(self.fake.transport.writes)
        await self.client.apply(intent, subresource=subresource)
        return len(self.fake.transport.writes) > sent


def gadget(spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a", "namespace": "default"}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": metadata, "spec": spec}


# --- laws -------------------------------------------------------------------------------------------

words = st.sampled_from(["a", "b", "c"])
ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.sampled_from([80, 81])},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": words},
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
)
plain = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "color": words,
        "settings": st.dictionaries(words, words, min_size=1),
        "tags": st.lists(words, min_size=1, unique=True),
        "args": st.lists(words),
        "blob": st.dictionaries(words, words, min_size=1),
        "free": st.dictionaries(words, st.lists(words) | words, min_size=1),
        "ports": ports,
    },
).filter(bool)
"""What comes back as it was sent."""
odd = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "settings": st.dictionaries(words, words),
        "tags": st.lists(words, unique=True),
        "blob": st.dictionaries(words, words),
        "free": st.dictionaries(words, st.none() | st.lists(words) | st.dictionaries(words, words)),
        "ports": st.just([]) | ports,
    },
)
"""Of this a server keeps some in its own way, or not at all."""


labels = st.dictionaries(words, words)


def acts(specs: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """What happens, one after the other; the same few intents come again and again."""
    pools = st.lists(st.builds(gadget, specs, labels), min_size=1, max_size=2)
    return pools.flatmap(lambda pool: st.lists(_act(st.sampled_from(pool), specs), max_size=10))


def _act(
    intents: st.SearchStrategy[dict[str, Any]], specs: st.SearchStrategy[dict[str, Any]]
) -> st.SearchStrategy[tuple[str, Any]]:
    return st.one_of(
        st.tuples(st.just("mine"), intents),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("theirs"), intents | st.builds(gadget, specs, labels)),
        st.tuples(st.just("update"), st.builds(lambda spec: {"spec": spec}, specs)),
        st.tuples(st.just("update"), st.builds(lambda one: {"metadata": {"labels": one}}, labels)),
        st.tuples(st.just("status"), st.just({"phase": "Up"}) | st.just({"phase": "Up", "count": 1})),
        st.tuples(st.just("delete"), st.none()),
    )


async def play(acted: list[tuple[str, Any]], *, exact: bool, **options: Any) -> None:
    gadgets = Gadgets(**options)
    for act, value in acted:
        match act:
            case "mine":
                await check(gadgets, value, exact=exact)
            case "theirs":
                gadgets.apply("theirs", value)
            case "update":
                gadgets.update(value)
            case "status" if gadgets.version():
                await check(gadgets, {**gadget({}), "status": value}, "status", exact=exact)
            case "restart":
                gadgets.restart()
            case "delete" if gadgets.version():
                gadgets.server.handle(ApiRequest("DELETE", PATH))
        gadgets.refresh()


async def check(gadgets: Gadgets, intent: dict[str, Any], subresource: str = "", *, exact: bool) -> None:
    before = gadgets.version()
    sent = await gadgets.applied(intent, subresource)
    after = gadgets.version()
    if not sent:
        body = {name: value for name, value in intent.items() if name in ("apiVersion", "kind", "metadata")}
        part = subresource or "spec"
        owned = "managedFields" in gadgets.metadata()
        gadgets.apply("mine", {**body, part: intent[part]}, subresource)
        # An apply to an object without owners notes its fields as `before-first-apply`, and changes no more.
        assert gadgets.version() == before or not owned, "it was left out, and would have changed something"
    elif exact:
        assert after != before, "it was sent, and changed nothing"
    gadgets.refresh()
    assert not await gadgets.applied(intent, subresource), "it was sent twice"


@pytest.mark.rule("write-7")
@settings(max_examples=150, deadline=None)
@given(acted=acts(plain))
def test_an_apply_is_skipped_exactly_if_it_would_change_nothing(acted: list[tuple[str, Any]]) -> None:
    anyio.run(lambda: play(acted, exact=True))


@pytest.mark.rule("write-7")
@settings(max_examples=100, deadline=None)
@example(acted=[("mine", gadget({"tags": []})), ("mine", gadget({"tags": []}))])
@example(
    acted=[
        ("mine", gadget({"free": {"b": {"a": "a"}}})),
        ("theirs", gadget({"free": {"b": []}})),
        ("status", {"phase": "Up"}),
    ]
)
@given(acted=acts(odd))
def test_an_intent_that_the_server_normalises_is_sent_once_and_then_skipped(
    acted: list[tuple[str, Any]],
) -> None:
    anyio.run(lambda: play(acted, exact=False))


@pytest.mark.rule("write-7")
@settings(max_examples=50, deadline=None)
@given(acted=acts(plain))
def test_a_cache_that_drops_applied_fields_skips_the_same_applies(acted: list[tuple[str, Any]]) -> None:
    anyio.run(lambda: play(acted, exact=True, drop=("/metadata/managedFields", "/spec", "/status")))
