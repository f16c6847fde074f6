"""Admission that waits: nothing is locked meanwhile, and the write is made of what is there afterwards."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import msgspec
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from informers.transport import HttpRequest
from reconcile.embedded import AdmittedWrite, ApiRequest, Denied, InProcessTransport, User
from reconcile.embedded.http import serve
from tests.embedded.api_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    MERGE,
    WIDGETS,
    Answer,
    Api,
    config_map,
    decoded,
    definition,
    events,
    widget,
)

SLOW = User("slow", ("system:masters",))
APPLY = "application/apply-patch+yaml"
A = f"{CONFIG_MAPS}/a"


@define
class Gate:
    """An admission that lets writes of the user `slow` wait until `open`, and notes what it was asked."""

    opened: anyio.Event = field(factory=anyio.Event)
    asked: list[tuple[str, Any]] = field(factory=list)
    """The data of the stored object, and the operation, at each question."""
    dry_runs: list[bool] = field(factory=list)
    verdict: Callable[[], None] = field(default=lambda: None)

    def __call__(self, request: AdmittedWrite) -> Awaitable[None] | None:
        return self._wait(request) if request.user.name == "slow" else None

    async def _wait(self, request: AdmittedWrite) -> None:
        self.asked.append((request.operation, None if request.old is None else request.old.get("data")))
        self.dry_runs.append(request.dry_run)
        await self.opened.wait()
        self.verdict()


@define
class Slow:
    """A server whose writes by `slow` wait, and one request of theirs in a task of its own."""

    api: Api = field(factory=Api)
    gate: Gate = field(factory=Gate)
    task: asyncio.Task[Answer] | None = None

    def __attrs_post_init__(self) -> None:
        self.api.server.admission.append(self.gate)

    async def begin(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> None:
        """Send a request, and return when admission has been asked about it."""
        asked = len(self.gate.asked)
        self.task = asyncio.create_task(self._send(method, path, body, content_type, query))
        while len(self.gate.asked) == asked:
            assert not self.task.done(), self.task.result().body
            await anyio.lowlevel.checkpoint()

    async def _send(self, method: str, path: str, body: Any, kind: str, query: dict[str, str]) -> Answer:
        encoded = b"" if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, path, query, {"content-type": kind}, encoded, SLOW)
        return decoded(await self.api.server.respond(request))

    async def end(self) -> Answer:
        """Let it go on, and return its answer."""
        assert self.task is not None
        self.gate.opened.set()
        return await self.task


@pytest.fixture
async def slow() -> Slow:
    slow = Slow()
    slow.api.ok("POST", CONFIG_MAPS, config_map(data={"first": "1"}))
    return slow


def patch(slow: Slow, **data: str) -> None:
    slow.api.merge(A, {"data": data})


async def test_other_requests_are_answered_while_one_waits(slow: Slow) -> None:
    await slow.begin("PATCH", A, {"data": {"mine": "1"}}, MERGE)
    assert slow.api.ok("GET", A)["data"] == {"first": "1"}
    slow.api.ok("POST", CONFIG_MAPS, config_map("b"))
    slow.api.ok("DELETE", f"{CONFIG_MAPS}/b")
    assert (await slow.end()).body["data"] == {"first": "1", "mine": "1"}
    assert slow.gate.asked == [("UPDATE", {"first": "1"})]


@pytest.mark.parametrize("content_type", [MERGE, "application/strategic-merge-patch+json", APPLY])
async def test_a_patch_applies_to_the_newest_state_and_admission_sees_that_state(
    slow: Slow, content_type: str
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"mine": "1"}}
    await slow.begin("PATCH", A, body, content_type, fieldManager="slow")
    patch(slow, theirs="1")
    assert (await slow.end()).body["data"] == {"first": "1", "theirs": "1", "mine": "1"}
    assert slow.gate.asked == [("UPDATE", {"first": "1"}), ("UPDATE", {"first": "1", "theirs": "1"})]


async def test_an_update_without_a_version_is_repeated_and_wins(slow: Slow) -> None:
    await slow.begin("PUT", A, config_map(data={"mine": "1"}))
    patch(slow, theirs="1")
    assert (await slow.end()).body["data"] == {"mine": "1"}
    assert len(slow.gate.asked) == 2


@pytest.mark.parametrize(("method", "kind"), [("PUT", "application/json"), ("PATCH", MERGE)])
async def test_a_write_with_a_version_is_refused_after_an_intermediate_write(
    slow: Slow, method: str, kind: str
) -> None:
    version = slow.api.ok("GET", A)["metadata"]["resourceVersion"]
    await slow.begin(method, A, config_map(data={"mine": "1"}, resourceVersion=version), kind)
    patch(slow, theirs="1")
    answer = await slow.end()
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert slow.api.ok("GET", A)["data"] == {"first": "1", "theirs": "1"}


@pytest.mark.parametrize(
    ("method", "body", "kind"),
    [("PATCH", {"data": {}}, MERGE), ("PUT", config_map(), "application/json"), ("DELETE", None, "")],
)
async def test_an_object_deleted_meanwhile_is_not_found(
    slow: Slow, method: str, body: Any, kind: str
) -> None:
    await slow.begin(method, A, body, kind)
    slow.api.ok("DELETE", A)
    assert (await slow.end()).status == 404


async def test_admission_of_a_deletion_sees_the_state_that_is_deleted(slow: Slow) -> None:
    await slow.begin("DELETE", A)
    patch(slow, theirs="1")
    assert (await slow.end()).status == 200
    assert slow.gate.asked == [("DELETE", {"first": "1"}), ("DELETE", {"first": "1", "theirs": "1"})]


async def test_a_deletion_spares_an_object_recreated_meanwhile(slow: Slow) -> None:
    await slow.begin("DELETE", A)
    slow.api.ok("DELETE", A)
    slow.api.ok("POST", CONFIG_MAPS, config_map())
    assert (await slow.end()).status == 404
    slow.api.ok("GET", A)


async def test_the_deletion_of_a_collection_spares_objects_created_meanwhile(slow: Slow) -> None:
    await slow.begin("DELETE", CONFIG_MAPS)
    slow.api.ok("DELETE", A)
    slow.api.ok("POST", CONFIG_MAPS, config_map())
    assert [item["data"] for item in (await slow.end()).body["items"]] == [{"first": "1"}]
    slow.api.ok("GET", A)


async def test_a_name_that_was_taken_meanwhile_is_a_conflict_for_a_create(slow: Slow) -> None:
    await slow.begin("POST", CONFIG_MAPS, config_map("b"))
    slow.api.ok("POST", CONFIG_MAPS, config_map("b", {"theirs": "1"}))
    answer = await slow.end()
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")


async def test_an_apply_updates_an_object_created_meanwhile(slow: Slow) -> None:
    intent = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("b", {"mine": "1"})}
    await slow.begin("PATCH", f"{CONFIG_MAPS}/b", intent, APPLY, fieldManager="slow")
    slow.api.ok("POST", CONFIG_MAPS, config_map("b", {"theirs": "1"}))
    assert (await slow.end()).body["data"] == {"mine": "1", "theirs": "1"}
    assert [operation for operation, _ in slow.gate.asked] == ["CREATE", "UPDATE"]


async def test_an_update_that_creates_updates_an_object_created_meanwhile(slow: Slow) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "mine"}}
    await slow.begin("PUT", f"{leases}/l", lease)
    slow.api.ok("POST", leases, {**lease, "spec": {"holderIdentity": "theirs"}})
    answer = await slow.end()
    # Leases are updated by version only, as on a real server, and this update names none.
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "metadata.resourceVersion")])


async def test_nothing_is_created_in_a_namespace_terminated_meanwhile(slow: Slow) -> None:
    slow.api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "brief"}})
    await slow.begin("POST", CONFIG_MAPS.replace("default", "brief"), config_map())
    slow.api.ok("DELETE", "/api/v1/namespaces/brief")
    assert (await slow.end()).status == 403


async def test_an_object_is_validated_by_the_definition_at_the_time_of_the_write(slow: Slow) -> None:
    await slow.begin("POST", WIDGETS, widget(spec={"size": 3}))
    stricter = definition()
    schema = stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["size"]["maximum"] = 2
    slow.api.merge(f"{DEFINITIONS}/widgets.example.com", {"spec": stricter["spec"]})
    answer = await slow.end()
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "spec.size")])


async def test_a_resource_removed_meanwhile_is_not_found(slow: Slow) -> None:
    await slow.begin("POST", WIDGETS, widget())
    slow.api.ok("DELETE", f"{DEFINITIONS}/widgets.example.com")
    slow.api.server.settle()
    assert (await slow.end()).status == 404


async def test_a_quota_is_checked_after_the_wait(slow: Slow) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2"}}}
    slow.api.ok("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    await slow.begin("POST", CONFIG_MAPS, config_map("b"))
    slow.api.ok("POST", CONFIG_MAPS, config_map("c"))
    answer = await slow.end()
    assert answer.status == 403
    assert "exceeded quota: q" in answer.body["message"]


async def test_admission_can_refuse_after_the_wait(slow: Slow) -> None:
    def refuse() -> None:
        raise Denied("not today")

    slow.gate.verdict = refuse
    await slow.begin("PATCH", A, {"data": {"mine": "1"}}, MERGE)
    answer = await slow.end()
    assert (answer.status, answer.body["message"]) == (403, 'configmaps "a" is forbidden: not today')


async def test_a_dry_run_waits_too_and_writes_nothing(slow: Slow) -> None:
    before = slow.api.server.version
    await slow.begin("PATCH", A, {"data": {"mine": "1"}}, MERGE, dryRun="All")
    assert (await slow.end()).body["data"] == {"first": "1", "mine": "1"}
    assert slow.gate.dry_runs == [True]
    assert slow.api.server.version == before


async def test_a_write_cancelled_while_it_waits_changes_nothing(slow: Slow) -> None:
    before = slow.api.server.version
    await slow.begin("PATCH", A, {"data": {"mine": "1"}}, MERGE)
    assert slow.task is not None
    slow.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow.end()
    assert slow.api.server.version == before
    patch(slow, theirs="1")


async def test_scale_and_status_wait_like_their_objects(slow: Slow) -> None:
    slow.api.ok("POST", WIDGETS, widget(spec={"replicas": 1}))
    await slow.begin("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 3}}, MERGE)
    slow.api.merge(f"{WIDGETS}/a", {"spec": {"size": 5}})
    assert (await slow.end()).body["spec"] == {"replicas": 3}
    spec = slow.api.ok("GET", f"{WIDGETS}/a")["spec"]
    assert (spec["size"], spec["replicas"]) == (5, 3)


async def test_watches_show_writes_in_the_order_of_their_execution(slow: Slow) -> None:
    watch = slow.api.watch(CONFIG_MAPS)
    events(watch)
    await slow.begin("PATCH", A, {"data": {"mine": "1"}}, MERGE)
    slow.api.ok("POST", CONFIG_MAPS, config_map("b"))
    await slow.end()
    seen = [(obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"])) for _, obj in events(watch)]
    assert [name for name, _ in seen] == ["b", "a"]
    assert seen[0][1] < seen[1][1]


# --- without an event loop ---------------------------------------------------------------------


class Waiting:
    """What an admission may return: an awaitable that is not ready, on any event loop or none."""

    def __await__(self) -> Generator[None, None, None]:
        yield


async def _waits_to_release() -> None:
    try:
        await Waiting()
    finally:
        await Waiting()


@pytest.mark.parametrize("admission", [Waiting, _waits_to_release])
def test_handle_refuses_a_write_that_would_have_to_wait(admission: Callable[[], Awaitable[None]]) -> None:
    api = Api()
    api.server.admission.append(lambda request: admission())
    before = api.server.version
    request = ApiRequest("POST", CONFIG_MAPS, {}, {}, msgspec.json.encode(config_map()), SLOW)
    answer = decoded(api.server.handle(request))
    assert answer.status == 500
    assert "await ApiServer.respond() in place of handle()" in answer.body["message"]
    assert api.server.version == before


def test_an_autoscaler_reports_a_target_whose_admission_would_wait() -> None:
    api = Api()
    api.ok("POST", WIDGETS, widget(spec={"replicas": 1}))
    api.server.admission.append(lambda request: Waiting() if request.name == "a" else None)
    target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "a"}
    autoscaler = {
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3},
    }
    api.settled("POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", autoscaler)
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h"
    (condition,) = api.ok("GET", path)["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("AbleToScale", "FailedUpdateScale")
    assert "has to wait for an answer" in condition["message"]


# --- the two ways in ---------------------------------------------------------------------------


async def test_over_http_and_in_process_other_requests_are_answered_while_one_waits(slow: Slow) -> None:
    transport = InProcessTransport(slow.api.server, user=SLOW)
    body = msgspec.json.encode({"data": {"mine": "1"}})
    headers = {"content-type": MERGE}
    async with (
        serve(slow.api.server, tls=False, users={"t": SLOW}, token="admin") as face,
        aiohttp.ClientSession(face.url) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_patch, session, body, {**headers, "authorization": "Bearer t"})
        group.start_soon(transport.request, HttpRequest("PATCH", A, {}, headers, body))
        while len(slow.gate.asked) < 2:
            await anyio.lowlevel.checkpoint()
        async with session.get(A, headers={"authorization": "Bearer admin"}) as answer:
            assert (await answer.json())["data"] == {"first": "1"}
        slow.gate.opened.set()
    assert slow.api.ok("GET", A)["data"] == {"first": "1", "mine": "1"}


async def _patch(session: aiohttp.ClientSession, body: bytes, headers: dict[str, str]) -> None:
    async with session.patch(A, data=body, headers=headers) as answer:
        assert answer.status == 200


# --- the law -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=8))
def test_no_write_is_lost_however_writes_and_waits_interleave(writes: list[tuple[int, bool]]) -> None:
    """Each adds a key of its own, after a wait of its own; one that names a version may be refused."""

    async def admission(request: AdmittedWrite) -> None:
        for _ in range(int(request.user.name) if request.user.name.isdigit() else 0):
            await anyio.lowlevel.checkpoint()

    async def write(api: Api, number: int, wait: int, versioned: bool, kept: set[str]) -> None:
        stored = api.ok("GET", A)["metadata"]["resourceVersion"]
        body: dict[str, Any] = {"data": {f"k{number}": "1"}}
        if versioned:
            body["metadata"] = {"resourceVersion": stored}
        user = User(str(wait), ("system:masters",))
        request = ApiRequest("PATCH", A, {}, {"content-type": MERGE}, msgspec.json.encode(body), user)
        answer = decoded(await api.server.respond(request))
        assert answer.status in ((200, 409) if versioned else (200,))
        if answer.status == 200:
            kept.add(f"k{number}")

    async def run() -> None:
        api, kept = Api(), set[str]()
        api.ok("POST", CONFIG_MAPS, config_map())
        api.server.admission.append(admission)
        async with anyio.create_task_group() as group:
            for number, (wait, versioned) in enumerate(writes):
                group.start_soon(write, api, number, wait, versioned, kept)
        assert set(api.ok("GET", A)["data"]) == kept

    anyio.run(run)
