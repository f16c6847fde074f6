"""Whether a server can be reached: what raises doubt, what ends it, and how it is probed."""

import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import pytest
from attrs import define, field

from informers import (
    BadRequest,
    OutcomeUnknown,
    Reachability,
    ReachTransport,
    Response,
    ServerError,
    TooManyRequests,
    Unreachable,
    error_from_response,
    is_unreachable,
)
from informers.reachability import CALM_SECONDS, FIRST_PROBE, RAMP_RATE, UNREADY_SECONDS
from informers.reflector_state import Listing, Resting, Streaming, Watching, recovered
from informers.transport import HttpRequest, PassingTransport, about_to_send, last_check
from reconcile.testing import VirtualClock, simulate
from tests.helpers.scenarios import in_world

READY = Response(200, {}, b"ok")
PODS = "/api/v1/pods"
STATUS = b'{"kind":"Status","apiVersion":"v1","reason":"ServiceUnavailable","message":"later","code":503}'
UNREADY = Response(500, {"content-type": "text/plain"}, b"[+]ping ok\n[-]etcd failed\nreadyz check failed\n")
REFUSED = Unreachable("nothing listens there")


@define
class Server:
    """Answers by path; notes when it was asked, and for what."""

    answers: Mapping[str, Response | Exception | float]
    server: str = "https://there"
    asked: list[tuple[float, str]] = field(factory=list)

    async def request(self, request: HttpRequest) -> Response:
        about_to_send()
        self.asked.append((anyio.current_time(), request.path))
        answer = self.answers.get(request.path, REFUSED)
        if isinstance(answer, float):
            await anyio.sleep(answer)
            return READY
        if isinstance(answer, Exception):
            raise answer
        return answer


def error_of(code: int) -> Response:
    return Response(code, {}, b'{"kind":"Status","reason":"Forbidden","message":"not yet","code":403}')


@define
class World:
    server: Server
    reach: Reachability


Story = Callable[[World], Awaitable[None]]


def watched(**answers: Response | Exception | float) -> Callable[[Story], Callable[[], None]]:
    """Plays a story of a server that answers probes (`readyz`) and lists (`pods`) so; else it is refused."""
    paths = {"readyz": "/readyz", "pods": PODS}

    def play(story: Story) -> None:
        server = Server({paths[name]: answer for name, answer in answers.items()})
        reach = Reachability(server, VirtualClock(0), lambda: PODS)  # type: ignore[arg-type]

        async def run() -> None:
            async with anyio.create_task_group() as group:
                reach.start(group)
                await story(World(server, reach))
                group.cancel_scope.cancel()
            reach.end()

        simulate(run, limit_seconds=3600)

    return in_world(play)


async def down_for_a_while(world: World) -> None:
    answers, world.server.answers = world.server.answers, {}
    world.reach.failed(REFUSED)
    await anyio.sleep(2)
    assert world.reach.down
    world.server.answers = answers
    world.reach.answered()


@pytest.mark.rule("outage-5")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("refused"), True),
        (OutcomeUnknown("reset"), True),
        (error_from_response(502, {}, b"<html>Bad Gateway</html>"), True),
        (error_from_response(503, {}, b"service unavailable"), True),
        (error_from_response(504, {}, b""), True),
        (error_from_response(503, {}, STATUS), False),
        (error_from_response(500, {}, b"panic"), False),
        (TooManyRequests(429, "", "later"), False),
        (ServerError(504, "Timeout", "the request did not complete"), False),
        (BadRequest(400, "", "what?"), False),
        (ConnectionRefusedError("of another system"), False),
        (TimeoutError(), False),
    ],
)
def test_only_errors_without_an_answer_of_the_api_server_count_as_unreachable(
    error: Exception, expected: bool
) -> None:
    assert is_unreachable(error) is expected


@pytest.mark.rule("outage-5")
@watched(readyz=READY)
async def test_a_single_failure_is_doubt_and_an_answered_probe_ends_it(world: World) -> None:
    world.reach.failed(REFUSED)
    assert (world.reach.troubled, world.reach.down) == (True, False)
    await anyio.sleep(FIRST_PROBE + 0.01)
    assert (world.reach.troubled, world.reach.down, world.reach.status().outages) == (False, False, 0)
    assert [path for _, path in world.server.asked] == ["/readyz"]


@pytest.mark.rule("outage-5")
@watched()
async def test_any_answer_before_the_first_probe_ends_doubt(world: World) -> None:
    world.reach.failed(REFUSED)
    world.reach.answered()
    await anyio.sleep(5)
    assert world.server.asked == []


@pytest.mark.rule("outage-4")
@watched(readyz=READY)
async def test_endless_failures_on_a_server_that_is_up_cost_one_probe_a_second(world: World) -> None:
    for _ in range(600):
        world.reach.failed(REFUSED)
        await anyio.sleep(0.1)
    assert 30 <= len(world.server.asked) <= 61
    assert world.reach.status().outages == 0


@pytest.mark.rule("outage-4")
@watched()
async def test_a_server_that_is_down_is_probed_at_least_once_a_second(world: World) -> None:
    world.reach.failed(REFUSED)
    await anyio.sleep(60)
    times = [at for at, _ in world.server.asked]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert max(gaps) <= 1.0
    assert min(gaps[5:]) >= 0.8
    assert world.reach.status().down_seconds == pytest.approx(60, abs=0.5)


@pytest.mark.rule("outage-5")
@watched(readyz=Response(503, {}, b"<html>no backend</html>"), pods=READY)
async def test_a_gateway_that_passes_only_the_api_causes_no_lasting_outage(world: World) -> None:
    world.reach.failed(REFUSED)
    await anyio.sleep(1)
    assert not world.reach.down
    assert PODS in [path for _, path in world.server.asked]


@pytest.mark.rule("outage-5")
@watched(readyz=UNREADY, pods=error_of(403))
async def test_a_server_that_reports_itself_unready_is_allowed_ten_seconds(world: World) -> None:
    world.reach.failed(REFUSED)
    await anyio.sleep(UNREADY_SECONDS - 1)
    assert world.reach.down
    await anyio.sleep(3)
    assert not world.reach.down


@pytest.mark.rule("outage-4")
@watched(readyz=1000.0, pods=1000.0)
async def test_an_unanswered_probe_is_abandoned_and_the_next_is_sent(world: World) -> None:
    world.reach.failed(REFUSED)
    await anyio.sleep(30)
    assert world.reach.down
    assert 6 <= len(world.server.asked) <= 10


@pytest.mark.rule("outage-4")
@watched()
async def test_a_server_that_soon_fails_again_is_probed_no_faster_than_before(world: World) -> None:
    world.reach.failed(REFUSED)
    await anyio.sleep(10)
    for _ in range(20):
        world.reach.answered()
        before = len(world.server.asked)
        world.reach.failed(REFUSED)
        await anyio.sleep(1)
        assert len(world.server.asked) - before <= 3
    world.reach.answered()
    await anyio.sleep(CALM_SECONDS)
    world.reach.failed(REFUSED)
    await anyio.sleep(FIRST_PROBE + 0.3)
    assert world.reach.down


@pytest.mark.rule("outage-3")
@watched()
async def test_waiters_resume_when_the_server_answers_with_informers_first(world: World) -> None:
    order: list[str] = []
    world.reach.failed(REFUSED)
    world.reach.when_up("key", lambda: order.append("key"))
    world.reach.add_listener(lambda: order.append("informer"))
    await anyio.sleep(2)

    async def wait() -> None:
        await world.reach.wait_up()
        order.append("worker")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(1)
        assert order == []
        world.reach.answered()
    assert order == ["informer", "key", "worker"]
    world.reach.failed(REFUSED)
    await anyio.sleep(2)
    world.reach.answered()
    assert order == ["informer", "key", "worker", "informer"]


@pytest.mark.rule("outage-3")
@watched()
async def test_waiters_for_an_outage_that_did_not_occur_are_forgotten(world: World) -> None:
    woken: list[str] = []
    world.reach.when_up("before", lambda: woken.append("before"))
    world.reach.failed(REFUSED)
    world.reach.when_up("doubt", lambda: woken.append("doubt"))
    world.reach.answered()
    world.reach.failed(REFUSED)
    await anyio.sleep(2)
    world.reach.answered()
    assert woken == []


@pytest.mark.rule("outage-4")
@watched(pods=READY)
async def test_requests_are_paced_during_the_first_second_only(world: World) -> None:
    await down_for_a_while(world)
    began = anyio.current_time()
    transport = ReachTransport(world.server, world.reach)  # type: ignore[arg-type]
    async with anyio.create_task_group() as group:
        for _ in range(500):
            group.start_soon(transport.request, HttpRequest("GET", PODS))
    sent = [at - began for at, path in world.server.asked if at >= began]
    assert len([at for at in sent if at < 1]) <= RAMP_RATE
    assert max(sent) == pytest.approx(1)
    assert min(after - before for before, after in itertools.pairwise(sent[:70])) >= 0.01
    await transport.request(HttpRequest("GET", PODS))
    assert not world.reach.ramping


@pytest.mark.rule("outage-4")
@watched(pods=READY)
async def test_requests_for_the_lease_are_not_paced(world: World) -> None:
    await down_for_a_while(world)
    began = anyio.current_time()
    transport = ReachTransport(world.server, world.reach, paced=False)  # type: ignore[arg-type]
    assert world.reach.ramping
    for _ in range(10):
        await transport.request(HttpRequest("GET", PODS))
    assert anyio.current_time() == began


@pytest.mark.rule("outage-5")
@watched(pods=Response(429, {}, b"later"), readyz=Response(503, {}, b"no backend"))
async def test_requests_report_their_outcome(world: World) -> None:
    transport: PassingTransport = ReachTransport(world.server, world.reach)  # type: ignore[arg-type]
    with pytest.raises(Unreachable):
        await transport.request(HttpRequest("GET", "/refused"))
    assert world.reach.troubled
    assert (await transport.request(HttpRequest("GET", PODS))).status == 429
    assert not world.reach.troubled
    assert (await transport.request(HttpRequest("GET", "/readyz"))).status == 503
    assert world.reach.troubled


@watched(readyz=READY)
async def test_a_probe_is_not_blocked_by_the_guard_of_the_failed_write(world: World) -> None:
    def held_back() -> None:
        raise Unreachable("this manager does not lead")

    with last_check(held_back):
        world.reach.failed(REFUSED)
    await anyio.sleep(2)
    assert not world.reach.troubled
    assert world.server.asked


@watched()
async def test_woken_waiters_inherit_nothing_from_the_answered_request(world: World) -> None:
    inherited: list[str] = []

    def woken() -> None:
        with suppress(Unreachable):
            about_to_send()
            inherited.append("nothing")

    def held_back() -> None:
        raise Unreachable("this manager does not lead")

    world.reach.failed(REFUSED)
    await anyio.sleep(2)
    assert world.reach.down
    world.reach.add_listener(woken)
    with last_check(held_back):
        world.reach.answered()
    assert inherited == ["nothing"]


@watched()
async def test_failures_before_the_start_and_after_the_end_are_ignored(world: World) -> None:
    other = Reachability(world.server, VirtualClock(0))  # type: ignore[arg-type]
    other.failed(REFUSED)
    assert not other.troubled
    world.reach.failed(REFUSED)
    await anyio.sleep(2)
    assert world.reach.down
    async with anyio.create_task_group() as group:
        group.start_soon(world.reach.wait_up)
        await anyio.sleep(1)
        world.reach.end()
        assert not world.reach.down
    world.reach.failed(REFUSED)
    assert not world.reach.troubled


@pytest.mark.rule("outage-3")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (Resting(25.0, Watching(7, 6, 1)), Watching(7)),
        (Resting(25.0, Listing("page-2", 6, 1)), Listing(absent=1)),
        (Resting(25.0, Streaming(6)), Streaming()),
        (Watching(7, 2), Watching(7)),
        (Listing("page-2"), Listing()),
        (Streaming(1), Streaming()),
    ],
)
def test_after_an_outage_a_reflector_continues_without_a_delay(state: Any, expected: Any) -> None:
    assert recovered(state) == expected
