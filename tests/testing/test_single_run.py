"""The unit test of an operator: one pass, on the real client, with failures on demand."""

import gc
import time
from typing import Any

import pytest

from reconcile import Context, Controller
from reconcile.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    OwnedByOther,
    PreconditionFailed,
    ServerError,
    ServerTimeout,
    StaleVersion,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.testing import FakeClient, LoseReply, Meanwhile, Touch, run_once, simulate
from reconcile.testing.failure_faults import RequestFailure
from tests.helpers.processor_time import within
from tests.testing.site_operator import Site, SiteSpec, site, sites


@pytest.mark.rule("kit-unit")
async def test_a_run_report_lists_the_writes() -> None:
    client = FakeClient(site())
    done = await run_once(sites(), "default/web", client)
    assert done.writes == ["apply configmaps default/web", "patch sites/status default/web"]
    assert (done.error, done.retry) == (None, False)


@pytest.mark.rule("kit-fail")
async def test_a_write_fails_the_given_number_of_times() -> None:
    client = FakeClient(site())
    client.fail("patch", ConfigMap, ServerError, times=2)
    passes = [await run_once(sites(), site(), client) for _ in range(3)]
    assert [type(done.error) for done in passes] == [ServerError, ServerError, type(None)]
    assert [done.retry for done in passes] == [True, True, False]


async def test_a_failure_without_a_limit_is_permanent() -> None:
    client = FakeClient(site())
    client.fail("patch", ConfigMap, 503, times=None)
    assert all([(await run_once(sites(), site(), client)).retry for _ in range(5)])


async def test_a_write_whose_reply_is_lost_was_executed() -> None:
    client = FakeClient(site())
    client.fail("patch", ConfigMap, LoseReply())
    assert isinstance((await run_once(sites(), site(), client)).error, OutcomeUnknown)
    assert (await client.get(ConfigMap, "web", "default")).data == {"text": "hello"}


@pytest.mark.rule("kit-fail")
async def test_only_requests_of_the_verb_and_the_kind_fail() -> None:
    client = FakeClient(site())
    client.fail("patch", Secret, ServerError)
    client.fail("delete", ConfigMap, ServerError)
    client.fail("get", Namespace, ServerError)
    assert (await run_once(sites(), site(), client)).error is None
    assert client.transport.applied == []


async def test_subresources_fail_with_their_object() -> None:
    client = FakeClient(site())
    client.fail("patch", Site, Forbidden)
    done = await run_once(sites(), site(), client)
    assert done.writes[-1] == "patch sites/status default/web"
    assert isinstance(done.error, Forbidden)


@pytest.mark.parametrize(
    "error",
    [
        AlreadyExists, BadRequest, Conflict, Expired, Forbidden, Invalid, NotFound, OutcomeUnknown,
        PreconditionFailed, ServerError, ServerTimeout, StaleVersion, TooManyRequests, Unauthorized,
        Unreachable,
    ],
)  # fmt: skip
@pytest.mark.rule("kit-fail")
@pytest.mark.simulated
async def test_the_caller_gets_the_requested_class_of_error(error: type[ApiError]) -> None:
    client = FakeClient(site())
    client.fail("*", Site, error, times=None)
    with pytest.raises(error):
        await client.create(site("other"))


@pytest.mark.parametrize(
    ("failure", "words"),
    [(422, "422 Invalid"), (Invalid(422, "Invalid", "too blue"), "too blue"), (LoseReply(), "planned fault")],
)
async def test_a_failure_may_be_a_code_an_error_or_a_fault(failure: RequestFailure, words: str) -> None:
    client = FakeClient()
    client.fail("create", Site, failure)
    client.serve(Site)
    with pytest.raises(ApiError, match=words):
        await client.create(site())


async def test_another_user_can_write_in_between() -> None:
    async def keep_text(ctx: Context[Site]) -> None:
        await ctx.client.raw.update(ctx.object.replace(spec=SiteSpec("mine")))

    client = FakeClient(site())
    client.fail("update", Site, Meanwhile(Touch()))
    writer = Controller(Site, keep_text, writes=[Site])
    assert (await run_once(writer, site(), client)).retry
    assert (await client.get(Site, "web", "default")).spec.text == "hello"
    assert (await run_once(writer, site(), client)).error is None


def test_an_error_class_without_an_http_code_is_refused() -> None:
    for vague in (OwnedByOther, ApiError):
        with pytest.raises(TypeError, match="has no HTTP code"):
            FakeClient().fail("patch", Site, vague)


async def test_a_request_of_the_test_itself_is_neither_recorded_nor_subject_to_faults() -> None:
    client = FakeClient(site())
    client.fail("*", ConfigMap, ServerError, times=None)
    path = "/api/v1/namespaces/default/configmaps"
    client.request("POST", path, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    client.request("PATCH", f"{path}/c", {"data": {"b": "2"}})
    assert client.request("GET", f"{path}/c")["data"] == {"a": "1", "b": "2"}
    with pytest.raises(NotFound):
        client.request("DELETE", f"{path}/other")
    assert client.transport.requests == []


@pytest.mark.rule("kit-unit")
def test_a_unit_test_takes_less_than_5_ms() -> None:
    async def test() -> Any:
        return await run_once(sites(), site(), FakeClient(site()))

    async def timed() -> float:
        began = time.process_time()
        assert (await test()).error is None
        return time.process_time() - began

    simulate(test)  # what is made once for a kind is not what one more test costs
    gc.collect()
    # The best of many: whatever else the machine does, it only adds to CPU time.
    assert within(min(simulate(timed) for _ in range(15)), 0.005)
