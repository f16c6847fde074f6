"""Answers that no API server should give: to each verb, and to writes that were carried out all the same."""

import itertools
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import pytest
from attrs import define, field
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from informers import MalformedAnswer, Response, error_from_response
from informers.discovery import UnknownKind
from informers.transport import HttpRequest, PassingTransport
from reconcile import Client, Controller, Intent, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import ApiError, DecodeError
from reconcile.kinds import ConfigMap, Deployment, DeploymentSpec, LabelSelector
from reconcile.models import kind_of
from reconcile.testing import VirtualClock
from tests.client.test_consistency import ensure_one
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world, simulated
from tests.helpers.scripted_server import ScriptedServer, in_turn

ETCD = '{"kind":"Status","status":"Failure","message":"etcdserver: request timed out","code":500}'
STARTING = json.dumps(
    {
        "kind": "Status",
        "status": "Failure",
        "reason": "ServiceUnavailable",
        "message": "the request has been made before all known HTTP paths have been installed",
        "details": {"retryAfterSeconds": 5},
        "code": 503,
    }
)
UNKNOWN = [
    Response(500, {}, ETCD.encode()),
    Response(500, {"retry-after": "1"}, ETCD.encode()),
    Response(502, {}, b"<html>bad gateway</html>"),
    Response(503, {}, b"upstream connect error or disconnect/reset before headers"),
    Response(503, {"retry-after": "1"}, b"<html>try again</html>"),
    Response(504, {}, b""),
    Response(200, {}, b""),
    Response(200, {}, b"<html>sign in</html>"),
    Response(200, {}, b"null"),
    Response(200, {}, b"[]"),
    Response(200, {}, b"{}"),
    Response(200, {}, b'{"metadata":'),
    Response(200, {}, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'),
    Response(204, {}, b""),
    Response(302, {"location": "https://elsewhere"}, b""),
]


@define
class Answering(PassingTransport):
    """Carries a request out, and then gives `answer` in the server's place, as often as `times` says."""

    inner: Any
    answer: Response
    matches: Callable[[str, str], bool]
    times: int = 1
    requests: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        super().__init__(self.inner)

    async def request(self, request: HttpRequest) -> Response:
        self.requests.append(str(request))
        answer = await self.inner.request(request)
        if not self.times or not self.matches(request.method, request.path):
            return answer
        self.times -= 1
        return self.answer


def creates_a_child(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/configmaps")


@pytest.mark.rule("inv-37")
@pytest.mark.parametrize("answer", UNKNOWN, ids=lambda answer: f"{answer.status}-{answer.body[:20]!r}")
@in_world(played)
async def test_a_child_is_created_once_whatever_the_answer_to_its_creation(
    world: World, answer: Response
) -> None:
    world.transport = Answering(world.transport, answer, creates_a_child)  # type: ignore[assignment]
    async with world.running(Controller(Toy, ensure_one, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(60)
        assert len(await world.client.list(ConfigMap, "default")) == 1


@pytest.mark.parametrize(
    ("code", "headers", "body", "acted"),
    [
        (500, {}, "", True),
        (500, {"retry-after": "1"}, ETCD, True),
        (502, {}, "", True),
        (503, {}, "", True),
        (503, {"retry-after": "1"}, "<html>", True),
        (503, {}, STARTING, False),
        (504, {}, "", True),
        (599, {}, "", True),
        (429, {"retry-after": "1"}, "", False),
        (409, {}, "", False),
        (422, {}, "", False),
        (400, {}, "", False),
    ],
)
def test_a_failed_write_may_have_acted_unless_the_server_provably_did_not_start_it(
    code: int, headers: dict[str, str], body: str, acted: bool
) -> None:
    assert error_from_response(code, headers, body.encode()).may_have_acted is acted


async def test_a_deletion_answered_by_something_else_does_not_count_as_done() -> None:
    inner = InProcessTransport(ApiServer())
    config = await Client(inner).create(ConfigMap(metadata=ObjectMeta("a", "default")))
    portal = Client(Answering(inner, Response(200, {}, b"<html>"), lambda method, _: method == "DELETE"))
    with pytest.raises(MalformedAnswer, match=r"DELETE .*6 bytes"):
        await portal.delete(config)


async def test_an_unreadable_answer_is_reported_without_its_content() -> None:
    inner = InProcessTransport(ApiServer())
    portal = Client(Answering(inner, Response(200, {}, b'{"data":"hunter2'), lambda *_: True, times=9))
    with pytest.raises(MalformedAnswer) as caught:
        await portal.get(ConfigMap, "a", "default")
    assert "hunter2" not in str(caught.value)


# --- any answer to any verb -----------------------------------------------------------------------

EXAMPLES = int(os.environ.get("HOSTILE_ANSWERS", "40"))
"""Per call; `make fuzz` takes more."""
MOST_REQUESTS = 60
"""`scale` may read, write and repeat five times, and each request be sent four times."""
LONGEST_WAIT = 700.0
"""Seconds: a server may ask for up to 10 before each repetition."""

ODD = st.sampled_from([None, True, 0, -1, 10**400, 1e308, "", "x", "²", "9" * 5000, [], [[]], {}, [None]])
ODD |= st.sampled_from([{"a": []}, "\ud800"])
METADATA_FIELDS = ["name", "namespace", "uid", "resourceVersion", "generation", "labels", "annotations"]
METADATA_FIELDS += ["continue", "finalizers", "ownerReferences", "managedFields", "deletionTimestamp"]
METADATA = st.fixed_dictionaries({}, optional=dict.fromkeys(METADATA_FIELDS, ODD))
DETAILS = st.fixed_dictionaries({}, optional={"causes": ODD, "retryAfterSeconds": ODD, "kind": ODD})
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "kind": ODD | st.sampled_from(["Status", "ConfigMap", "Scale", "List"]),
        "apiVersion": ODD,
        "metadata": ODD | METADATA,
        "items": ODD | st.lists(ODD | st.fixed_dictionaries({"metadata": METADATA}), max_size=2),
        "spec": ODD,
        "status": ODD,
        "details": ODD | DETAILS,
        "code": ODD,
        "reason": ODD,
        "message": ODD,
    },
)
BODIES = (
    OBJECTS.map(lambda body: json.dumps(body).encode())
    | st.sampled_from([b"", b"null", b"[]", b"{", b"\xff\xfe", b"<html>", b"[" * 1500, b'{"a":' * 1500])
    | st.binary(max_size=30)
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "retry-after": st.sampled_from(["0", "inf", "nan", "-1", "1e400", "soon", "²", "9" * 5000]),
        "warning": st.sampled_from(["", '299 - "a"', '299 - "', "²"]),
    },
)
STATUSES = st.sampled_from([200, 201, 202, 204, 206, 301, 304, 400, 401, 403, 404, 408, 409, 410, 413, 415])
STATUSES |= st.sampled_from([418, 422, 429, 431, 500, 501, 502, 503, 504, 511, 599])

DEPLOYMENT = DeploymentSpec(selector=LabelSelector({"a": "b"}), template={"metadata": {}, "spec": {}})
STORED = ConfigMap(metadata=ObjectMeta("a", "default", uid="u", resource_version="1"))
DEPLOYED = Deployment(metadata=ObjectMeta("a", "default", uid="u", resource_version="1"), spec=DEPLOYMENT)
RESOURCE = kind_of(ConfigMap).resource


async def watched(client: Client) -> None:
    async with client.watch(ConfigMap, "default") as events:
        async for _ in events:
            pass


async def paged(client: Client) -> None:
    async for _ in client.pages(ConfigMap, "default", size=1):
        pass


def changed(obj: ConfigMap) -> ConfigMap:
    return obj.replace(data={"a": "b"})


async def edited(client: Client) -> None:
    async with client.editing(STORED) as draft:
        draft.data = {"a": "b"}


CALLS: Mapping[str, Callable[[Client], Awaitable[Any]]] = {
    "get": lambda client: client.get(ConfigMap, "a", "default"),
    "find": lambda client: client.find(ConfigMap, "a", "default"),
    "list": lambda client: client.list(ConfigMap, "default"),
    "pages": paged,
    "watch": watched,
    "version": lambda client: client.raw.version(RESOURCE),
    "managed_fields": lambda client: client.raw.managed_fields(RESOURCE, STORED.key),
    "read_subresource": lambda client: client.raw.read_subresource(DEPLOYED, "scale"),
    "create": lambda client: client.create(ConfigMap(metadata=ObjectMeta("a", "default"))),
    "generate": lambda client: client.create(
        ConfigMap(metadata=ObjectMeta("", "default", generate_name="a-"))
    ),
    "apply": lambda client: client.apply(Intent(ConfigMap, metadata=ObjectMeta("a", "default"))),
    "apply a manifest": lambda client: client.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    ),
    "update": lambda client: client.raw.update(changed(STORED)),
    "modify": lambda client: client.modify(
        ConfigMap, "a", "default", lambda obj: obj.replace(data={"a": "b"})
    ),
    "editing": edited,
    "merge": lambda client: client.raw.merge(STORED, {"data": {"a": "b"}}),
    "evict": lambda client: client.raw.create_subresource(DEPLOYED, "eviction", {}),
    "scale": lambda client: client.scale(DEPLOYED, lambda replicas: replicas + 1),
    "apply_scale": lambda client: client.raw.apply_scale(DEPLOYED, 2),
    "set_scale": lambda client: client.raw.set_scale(DEPLOYED, 2, expect=1),
    "delete": lambda client: client.delete(STORED),
    "delete_all": lambda client: client.raw.delete_all(ConfigMap, "default"),
}


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@example(answers=[Response(200, {}, b'{"metadata":{"":""}}')])
@given(answers=st.lists(st.builds(Response, STATUSES, HEADERS, BODIES), min_size=1, max_size=3))
@simulated
async def test_every_call_ends_in_a_result_or_an_api_error_after_few_requests_and_a_bounded_wait(
    name: str, answers: list[Response]
) -> None:

    turns = itertools.cycle(answers)
    transport = ScriptedServer(lambda _: next(turns))
    started = anyio.current_time()
    # An object that breaks its model, and a kind that is not listed, have errors of their own.
    with suppress(ApiError, DecodeError, UnknownKind):
        await CALLS[name](Client(transport, clock=VirtualClock(1)))
    assert len(transport.seen) <= MOST_REQUESTS
    assert anyio.current_time() - started <= LONGEST_WAIT


async def edited_list(client: Client) -> None:
    async with client.editing(STORED) as draft:
        draft.metadata.finalizers = ("example.com/held",)


REFUSED = Response(
    409,
    {},
    b'{"kind":"Status","reason":"Conflict","code":409,"details":{"causes":'
    b'[{"reason":"FieldManagerConflict","field":".spec","message":"conflict with \\"other\\""}]}}',
)
UNFORCED = Intent(ConfigMap, metadata=ObjectMeta("a", "default"))
OBJECT = ("name", "uid", "resourceVersion")
GOES_ON: Mapping[str, tuple[Callable[[Client], Awaitable[Any]], Sequence[str], Sequence[Response]]] = {
    "modify": (CALLS["modify"], OBJECT, ()),
    "editing a list": (edited_list, OBJECT, ()),
    "merge": (CALLS["merge"], OBJECT, ()),
    "apply": (CALLS["apply"], OBJECT, ()),
    "apply except": (lambda client: client.apply(UNFORCED, unforced=[".data"]), OBJECT, [REFUSED]),
    "update": (CALLS["update"], OBJECT, ()),
    "scale": (CALLS["scale"], ["uid"], ()),
    "set_scale": (CALLS["set_scale"], ["uid"], ()),
    "apply_scale": (CALLS["apply_scale"], ["uid"], ()),
    "delete_all": (CALLS["delete_all"], ["name", "uid"], ()),
}
"""Calls that guard a further request by an answer, or note it as the state of an object; what they need of
it, and what is answered before."""


@pytest.mark.parametrize(("name", "missing"), [(name, part) for name in GOES_ON for part in GOES_ON[name][1]])
async def test_an_answer_without_the_metadata_of_a_stored_object_is_unreadable(
    name: str, missing: str
) -> None:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    del metadata[missing]
    obj = {"kind": "ConfigMap", "metadata": metadata, "spec": {"replicas": 1}}
    body = json.dumps({**obj, "items": [obj]}).encode()
    call, _, before = GOES_ON[name]
    transport = ScriptedServer(in_turn(*before, Response(200, {}, body)))
    with pytest.raises(MalformedAnswer):
        await call(Client(transport, clock=VirtualClock(1)))
    assert len(transport.seen) == 1 + len(before)
