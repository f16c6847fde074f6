"""One request: sent again only where that is safe, slowed if asked, its warnings and refusals readable."""

import logging
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import (
    ApiError,
    Forbidden,
    Invalid,
    OutcomeUnknown,
    Response,
    ServerError,
    ServerTimeout,
    StaleVersion,
    TooManyRequests,
    Unreachable,
)
from reconcile import Context, Controller, ObjectMeta, RequestLimiter
from reconcile.client.sender import LONGEST_WAIT, RETRIES, Sender, retry_wait
from reconcile.kinds import ConfigMap
from reconcile.testing import Drop, FakeClient, Fault, FaultPlan, LoseReply, Refuse, VirtualClock, When
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world, simulated
from tests.helpers.scripted_server import ScriptedServer, in_turn

LATER = {"retry_after": 1.0}
SETTINGS = ConfigMap(metadata=ObjectMeta("settings", "default"), data={"a": "1"})


def sender(*answers: Response) -> Sender:
    return Sender(ScriptedServer(in_turn(*answers)), VirtualClock(0))


def refusal(kind: type[Any], code: int, **more: Any) -> Any:
    return kind(code, "Reason", "message", **more)


@pytest.mark.rule("write-8")
@pytest.mark.parametrize(
    ("error", "read", "write"),
    [
        (Unreachable("refused"), True, True),
        (OutcomeUnknown("reset"), True, False),
        (refusal(TooManyRequests, 429, **LATER), True, True),
        (refusal(TooManyRequests, 429), False, False),
        (refusal(ServerError, 503, **LATER), True, False),
        (refusal(ServerError, 500), False, False),
        (refusal(ServerTimeout, 504, **LATER), True, False),
        (refusal(TooManyRequests, 429, retry_after=LONGEST_WAIT + 1), False, False),
        (refusal(StaleVersion, 409, **LATER), False, False),
        (refusal(Forbidden, 403), False, False),
        (refusal(Invalid, 422), False, False),
    ],
)
def test_a_request_is_retried_only_if_that_is_safe(error: ApiError, read: bool, write: bool) -> None:
    assert (retry_wait("GET", error, 0, float) is not None) is read
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (retry_wait(method, error, 0, float) is not None) is write
    assert retry_wait("GET", error, RETRIES, float) is None


@pytest.mark.rule("write-8")
@pytest.mark.parametrize(
    ("fault", "made"), [(Drop(), 1), (Refuse(429, "TooManyRequests", retry_after=2), 1), (LoseReply(), 1)]
)
@simulated
async def test_a_create_is_never_executed_twice(fault: Any, made: int) -> None:
    client = FakeClient(plan=FaultPlan((Fault(When("create", "*/configmaps", times=2), fault),)))
    try:
        await client.create(SETTINGS.with_metadata(name="", generate_name="s-"))
    except OutcomeUnknown:
        assert isinstance(fault, LoseReply)
    assert len(await client.list(ConfigMap, "default")) == made


@simulated
async def test_an_unreachable_server_is_given_up_after_the_last_retry() -> None:
    client = FakeClient(SETTINGS, plan=FaultPlan((Fault(When("get", times=None), Drop()),)))
    with pytest.raises(Unreachable):
        await client.get(ConfigMap, "settings", "default")
    assert len(client.transport.requests) == 1 + RETRIES
    assert anyio.current_time() < 2


@simulated
async def test_a_retry_waits_as_long_as_the_server_requested() -> None:
    plan = FaultPlan((Fault(When("get"), Refuse(503, "ServiceUnavailable", retry_after=3)),))
    client = FakeClient(SETTINGS, plan=plan)
    started = anyio.current_time()
    await client.get(ConfigMap, "settings", "default")
    assert 3 <= anyio.current_time() - started < 3.2


def headed(headers: Mapping[str, str]) -> Response:
    return Response(200, headers, b"{}")


async def test_a_warning_of_the_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    one = '299 - "batch/v1beta1 CronJob is deprecated"'
    sends = sender(
        headed({"warning": one}),
        headed({"warning": one}),
        headed({"warning": f'{one}, 299 - "unknown field \\"spec.x\\""'}),
        headed({"warning": "199 - unreadable"}),
    )
    with caplog.at_level(logging.WARNING, logger="reconcile.client"):
        for _ in range(4):
            await sends.send("GET", "/x", bytes)
    texts = [record.__dict__["text"] for record in caplog.records]
    assert texts == ["batch/v1beta1 CronJob is deprecated", 'unknown field "spec.x"']


async def test_a_refusal_by_rbac_names_the_missing_rule() -> None:
    message = (
        'pods "p" is forbidden: User "system:serviceaccount:default:op" cannot patch resource '
        '"pods/status" in API group "" in the namespace "default"'
    )
    body = msgspec.json.encode({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message})
    rule = r'\{apiGroups: \[""\], resources: \["pods/status"\], verbs: \["patch"\]\}'
    with pytest.raises(Forbidden, match=f"the RBAC rule that is missing: {rule}") as caught:
        await sender(Response(403, {}, body)).send("PATCH", "/api/v1/namespaces/default/pods/p/status", bytes)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


async def test_a_refusal_that_is_not_from_rbac_is_left_unchanged() -> None:
    message = 'pods "p" is forbidden: exceeded quota: compute'
    body = msgspec.json.encode({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message})
    with pytest.raises(Forbidden) as caught:
        await sender(Response(403, {}, body)).send("POST", "/api/v1/namespaces/default/pods", bytes)
    assert caught.value.message == message


@given(st.integers(1, 20), st.floats(0.5, 100), st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_each_request_is_sent_exactly_when_the_burst_and_the_refill_allow_it(
    burst: int, qps: float, gaps: list[float]
) -> None:
    limiter, arrivals = RequestLimiter(qps, burst), list(accumulate(gaps))
    times = [now + limiter.reserve(now) for now in arrivals]
    assert times == sorted(times)
    for last, now in enumerate(arrivals):
        allowed = [at + (last - first + 1 - burst) / qps for first, at in enumerate(arrivals[: last + 1])]
        assert times[last] == pytest.approx(max(now, *allowed), abs=1e-6)


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_that_admits_nothing_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="a limit needs"):
        RequestLimiter(qps, burst)


async def test_unknown_fields_are_handled_as_requested(caplog: pytest.LogCaptureFixture) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default"},
        "dta": {},
    }
    client = FakeClient()
    strict = client.with_options(field_validation="Strict")
    with pytest.raises(ApiError, match="dta"):
        await strict.create(await strict.raw.unstructured(manifest))
    with caplog.at_level(logging.WARNING, logger="reconcile.client"):
        await client.create(await client.raw.unstructured(manifest))
    assert [record.__dict__["text"] for record in caplog.records] == ['unknown field "dta"']


@pytest.mark.parametrize(
    "limit", [{"limiter": RequestLimiter(qps=1, burst=1)}, {"client_qps": 1, "client_burst": 1}]
)
@in_world(played)
async def test_the_controllers_of_a_manager_share_one_limit(world: World, limit: dict[str, Any]) -> None:
    async def read_and_write(ctx: Context[Toy]) -> None:
        await ctx.client.find(ConfigMap, "settings", "default", live=True)
        await ctx.apply(ConfigMap(metadata=ObjectMeta(ctx.object.name), data={}))

    async with world.running(Controller(Toy, read_and_write, owns=[ConfigMap]), **limit):
        await world.make("a")
        await world.make("b")
        await anyio.sleep(10)
    sent = [r.at for r in world.transport.requests if r.path.rpartition("/")[0].endswith("/configmaps")]
    assert len(sent) == 6  # of each toy two reads and one write
    assert all(later - sooner >= 0.999 for sooner, later in pairwise(sent))
