"""The transport on which a plan goes wrong: what the caller sees, and what the server saw."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import HttpRequest
from informers.api_errors import OutcomeUnknown, ServerError, StaleVersion, TooManyRequests, Unreachable
from informers.api_errors import error_from_response as error_from
from reconcile.testing.faults import (
    Crash,
    CrashAfter,
    CrashBefore,
    Cut,
    Delay,
    Drop,
    EndEarly,
    Expire,
    Fault,
    FaultPlan,
    LoseReply,
    Pause,
    Refuse,
    RefuseAsStale,
    SlowReply,
    Stall,
    What,
    When,
)
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.virtual_time import simulate
from tests.helpers.scripted_server import Chunks, ScriptedServer, SeenRequest, streaming

PODS = "/api/v1/namespaces/a/pods"
POD = f"{PODS}/web"
WATCH = {"watch": "true"}
EVENTS = [(1.0, b'{"type":"ADDED"}\n'), (1.0, b'{"type":"MODIFIED"}\n{"type":"DEL'), (1.0, b'ETED"}\n')]


def faulty(server: ScriptedServer, what: What, when: When | None = None) -> FaultyTransport:
    return FaultyTransport(server, FaultPlan([Fault(when or When(), what)]))


async def watched(transport: FaultyTransport) -> tuple[bytes, Exception | None]:
    """The bytes that came, and the error that ended them."""
    read = b""
    try:
        async with transport.stream(HttpRequest("GET", PODS, WATCH)) as answer:
            async for chunk in answer.chunks:
                read += chunk
    except (Unreachable, OutcomeUnknown) as error:
        return read, error
    return read, None


async def test_without_a_plan_everything_passes_and_is_recorded() -> None:
    server = streaming(EVENTS)
    transport = FaultyTransport(server)
    answer = await transport.request(HttpRequest("POST", PODS, {}, {}, b'{"kind":"Pod"}'))
    assert (answer.status, answer.body, transport.server) == (200, b'{"kind":"Pod"}', "scripted")
    assert await watched(transport) == (b"".join(chunk for _, chunk in EVENTS), None)
    assert [str(request) for request in transport.requests] == [f"CREATE {PODS}", f"WATCH {PODS}"]
    assert [request.status for request in transport.requests] == [200, 200]
    assert [request.body for request in transport.writes] == [{"kind": "Pod"}]
    assert transport.applied == []
    await transport.aclose()
    assert server.closed


@pytest.mark.parametrize(
    ("what", "reached", "error"),
    [
        (Drop(), False, Unreachable),
        (LoseReply(), True, OutcomeUnknown),
        (CrashBefore(), False, Crash),
        (CrashAfter(), True, Crash),
    ],
)
async def test_an_unanswered_request_raises_the_matching_error(
    what: What, reached: bool, error: type[BaseException]
) -> None:
    server = streaming()
    transport = faulty(server, what)
    with pytest.raises(error, match=PODS):
        await transport.request(HttpRequest("POST", PODS))
    assert bool(server.seen) is reached
    record = transport.requests[0]
    assert (record.status, record.server_status) == (None, 200 if reached else None)
    assert record.effective is reached


@pytest.mark.parametrize(
    ("what", "kind", "retry_after", "text"),
    [
        (RefuseAsStale(), StaleVersion, None, 'on pods "web": the object has been modified; please apply'),
        (Refuse(500), ServerError, None, "500 InternalError: refused by a planned fault"),
        (Refuse(503, text="no healthy upstream"), ServerError, None, "no healthy upstream"),
        (Refuse(429, text="Too many requests", retry_after=3), TooManyRequests, 3, "Too many requests"),
        (Refuse(429, retry_after=2), TooManyRequests, 2, "TooManyRequests"),
    ],
)
async def test_a_simulated_answer_reads_like_one_of_the_server(
    what: What, kind: type[Exception], retry_after: float | None, text: str
) -> None:
    server = streaming()
    transport = faulty(server, what)
    answer = await transport.request(HttpRequest("PATCH", POD))
    error = error_from(answer.status, answer.headers, answer.body)
    assert type(error) is kind
    assert error.retry_after == retry_after
    assert text in str(error)
    assert server.seen == []
    assert (transport.requests[0].status, transport.requests[0].server_status) == (answer.status, None)


async def test_a_stale_version_error_names_resource_and_group() -> None:
    transport = faulty(streaming(), RefuseAsStale())
    answer = await transport.request(HttpRequest("PUT", "/apis/apps/v1/namespaces/a/deployments/web/status"))
    error = error_from(409, {}, answer.body)
    assert 'on deployments.apps "web"' in error.message
    assert error.details == {"name": "web", "group": "apps", "kind": "deployments"}


async def test_only_a_change_of_an_existing_object_can_be_stale() -> None:
    transport = faulty(streaming(), RefuseAsStale())
    statuses = [
        (await transport.request(HttpRequest(method, POD))).status for method in ("GET", "POST", "DELETE")
    ]
    assert statuses == [200, 200, 409]


def test_delays_add_up_and_precede_the_deciding_fault() -> None:
    server = streaming()
    plan = FaultPlan(
        [Fault(When(), what) for what in (Delay(2), LoseReply(), SlowReply(5), Delay(1), Drop())]
    )
    transport = FaultyTransport(server, plan)

    async def main() -> float:
        with pytest.raises(OutcomeUnknown):
            await transport.request(HttpRequest("POST", PODS))
        return anyio.current_time()

    assert simulate(main) == 8
    assert [(seen.method, seen.path, seen.at) for seen in server.seen] == [("POST", PODS, 3.0)]
    assert transport.applied == [
        f"0.000s CREATE {PODS}: Delay(seconds=2)",
        f"2.000s CREATE {PODS}: Delay(seconds=1)",
        f"3.000s CREATE {PODS}: SlowReply(seconds=5)",
        f"8.000s CREATE {PODS}: LoseReply()",
    ]


async def test_a_pause_precedes_the_deciding_fault() -> None:
    paused: list[float] = []
    server = streaming()
    transport = FaultyTransport(server, FaultPlan([Fault(When(), what) for what in (Pause(4), Drop())]))
    transport.pause = paused.append
    with pytest.raises(Unreachable):
        await transport.request(HttpRequest("POST", PODS))
    assert (paused, server.seen) == ([4], [])


def test_an_answer_that_cannot_pass_is_recorded_even_if_its_caller_gives_up() -> None:
    def answer(_: SeenRequest) -> Chunks:
        transport.cut(10)
        return Chunks()

    async def main() -> None:
        with anyio.move_on_after(3):
            await transport.request(HttpRequest("POST", PODS))

    transport = FaultyTransport(ScriptedServer(answer))
    simulate(main)
    assert [(one.status, one.server_status) for one in transport.requests] == [(None, 200)]


async def test_an_answer_to_a_process_that_died_meanwhile_is_recorded() -> None:
    def answer(_: SeenRequest) -> Chunks:
        transport.die()
        return Chunks()

    transport = FaultyTransport(ScriptedServer(answer))
    with pytest.raises(Crash):
        await transport.request(HttpRequest("POST", PODS))
    assert [(one.status, one.server_status) for one in transport.requests] == [(None, 200)]


async def test_each_fault_counts_its_own_matches() -> None:
    plan = FaultPlan([Fault(When("patch", nth=2), Drop()), Fault(When(nth=2, times=2), Refuse(500))])
    transport = FaultyTransport(streaming(), plan)

    async def outcome(method: str) -> int | str:
        try:
            return (await transport.request(HttpRequest(method, POD))).status
        except Unreachable:
            return "dropped"

    assert [await outcome(m) for m in ("GET", "PATCH", "PATCH", "PATCH")] == [200, 500, "dropped", 200]


@given(st.integers(1, 12), st.integers(1, 12))
def test_the_fault_applies_to_the_nth_write_and_no_other(nth: int, writes: int) -> None:
    transport = faulty(streaming(), Refuse(500), When("write", nth=nth))

    async def main() -> list[int]:
        statuses = []
        for _ in range(writes):
            await transport.request(HttpRequest("GET", POD))
            statuses.append((await transport.request(HttpRequest("PATCH", POD))).status)
        return statuses

    assert simulate(main) == [500 if number == nth else 200 for number in range(1, writes + 1)]


async def test_a_crash_is_not_an_exception_that_a_reconciler_could_catch() -> None:
    assert not issubclass(Crash, Exception)


async def test_nothing_survives_a_crash_until_the_restart() -> None:
    server = streaming(EVENTS)
    transport = faulty(server, CrashAfter(), When("create"))
    cleaned_up: list[str] = []

    async def watch() -> None:
        try:
            await watched(transport)
        finally:
            with anyio.CancelScope(shield=True), pytest.raises(Crash):
                await transport.request(HttpRequest("PATCH", POD))
            cleaned_up.append("tried")

    async def crash() -> None:
        await anyio.sleep(0.5)
        await transport.request(HttpRequest("POST", PODS))

    crashes: list[Crash] = []
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            tasks.start_soon(crash)
    except* Crash as group:
        crashes.extend(error for error in group.exceptions if isinstance(error, Crash))
    assert [crash.carried_out for crash in crashes] == [True]
    assert cleaned_up == ["tried"]
    assert [seen.method for seen in server.seen] == ["GET", "POST"]
    assert transport.crashed
    transport.restart()
    assert (await transport.request(HttpRequest("POST", PODS))).status == 200
    assert not transport.crashed


async def test_an_open_stream_dies_with_its_process() -> None:
    transport = faulty(streaming(EVENTS), CrashBefore(), When("create"))
    async with transport.stream(HttpRequest("GET", PODS, WATCH)) as answer:
        await anext(aiter(answer.chunks))
        with pytest.raises(Crash):
            await transport.request(HttpRequest("POST", PODS))
        with pytest.raises(Crash):
            await anext(aiter(answer.chunks))


async def test_a_request_waiting_when_the_process_dies_is_never_sent() -> None:
    server = streaming()
    plan = FaultPlan([Fault(When("patch"), Delay(5)), Fault(When("create"), CrashBefore())])
    transport = FaultyTransport(server, plan)

    async def patch() -> None:
        with pytest.raises(Crash):
            await transport.request(HttpRequest("PATCH", POD))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(patch)
        await anyio.sleep(1)
        with pytest.raises(Crash):
            await transport.request(HttpRequest("POST", PODS))
    assert server.seen == []


LINES = [b'{"type":"ADDED"}\n', b'{"type":"MODIFIED"}\n', b'{"type":"DELETED"}\n']


@pytest.mark.parametrize(
    ("what", "read", "broken"),
    [
        (Cut(0), b"", True),
        (Cut(2), LINES[0] + LINES[1], True),
        (Cut(1, mid_line=True), LINES[0] + LINES[1][:10], True),
        (EndEarly(1), LINES[0], False),
        (EndEarly(0), b"", False),
        (EndEarly(9), b"".join(LINES), False),
        (Stall(1, seconds=100), b"".join(LINES), False),
    ],
)
async def test_a_stream_is_broken_after_the_given_number_of_lines(
    what: What, read: bytes, broken: bool
) -> None:
    server = streaming(EVENTS)
    transport = faulty(server, what)
    got, error = await watched(transport)
    assert got == read
    assert isinstance(error, OutcomeUnknown) is broken
    assert server.open_streams == 0
    assert len(transport.applied) == (0 if what == EndEarly(9) else 1)


async def test_a_cut_occurs_at_its_line_without_waiting_for_another() -> None:
    began = anyio.current_time()
    await watched(faulty(streaming(EVENTS), Cut(1)))
    assert anyio.current_time() == began + 1


async def test_an_expired_watch_ends_with_the_servers_own_message() -> None:
    got, error = await watched(faulty(streaming(EVENTS), Expire(1)))
    assert got == LINES[0] + (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"The resourceVersion for the provided watch is too old.",'
        b'"reason":"Expired","code":410}}\n'
    )
    assert error is None


async def test_a_stalled_stream_is_silent_for_the_given_time() -> None:
    began = anyio.current_time()
    await watched(faulty(streaming(EVENTS), Stall(1, seconds=100)))
    assert anyio.current_time() == began + 1 + 100 + 2


async def test_a_stream_can_stall_forever() -> None:
    with anyio.move_on_after(3600) as scope:
        await watched(faulty(streaming(EVENTS), Stall(1)))
    assert scope.cancelled_caught


@pytest.mark.parametrize(("what", "error"), [(Drop(), Unreachable), (LoseReply(), OutcomeUnknown)])
async def test_a_stream_may_fail_to_open(what: What, error: type[Exception]) -> None:
    transport = faulty(streaming(EVENTS), what, When("watch"))
    got, raised = await watched(transport)
    assert got == b""
    assert isinstance(raised, error)
    assert (await watched(transport))[1] is None


async def test_a_watch_may_be_refused() -> None:
    transport = faulty(streaming(EVENTS), Refuse(429, text="later", retry_after=1))
    async with transport.stream(HttpRequest("GET", PODS, WATCH)) as answer:
        assert answer.status == 429
        assert answer.headers["retry-after"] == "1"
        assert [chunk async for chunk in answer.chunks] == [b"later"]


async def test_faults_of_streams_do_not_count_other_requests() -> None:
    transport = faulty(streaming(EVENTS), EndEarly(0))
    await transport.request(HttpRequest("GET", PODS))
    assert await watched(transport) == (b"", None)
