"""What is asked of a scheduler over HTTP, and that no answer of one, or none, ends as a number."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from schedulers import LONGEST_ANSWER, HttpSchedulers, SchedulerFailed

TARGET, COUNTS, IDLE = "/api/v1/adaptive_target", "/json/counts.json", "/api/v1/check_idle"


@asynccontextmanager
async def a_scheduler(answers: Mapping[str, Any]) -> AsyncGenerator[str, None]:
    """The address of a scheduler that serves these answers; a text is sent as it is."""
    application = web.Application()
    for path, answer in answers.items():
        sent = answer if isinstance(answer, str) else None

        async def get(_: web.Request, answer: Any = answer, sent: str | None = sent) -> web.Response:
            return web.json_response(text=sent) if sent is not None else web.json_response(answer)

        application.router.add_get(path, get)
    async with TestServer(application) as server:
        yield str(server.make_url(""))


async def test_workers_are_retired_by_their_names() -> None:
    asked: list[Any] = []

    async def retire(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({})

    application = web.Application()
    application.router.add_post("/api/v1/retire_workers", retire)
    async with TestServer(application) as there, a_scheduler({}) as without_the_api:
        await HttpSchedulers().retire(str(there.make_url("")), ["a", "b"])
        assert asked == [{"names": ["a", "b"]}]
        with pytest.raises(SchedulerFailed, match="404 from"):
            await HttpSchedulers().retire(without_the_api, ["a"])
        gone = str(there.make_url(""))
    with pytest.raises(SchedulerFailed, match="no answer from"):
        await HttpSchedulers().retire(gone, ["a"])


async def test_the_desired_number_is_that_of_the_api_and_without_it_that_of_the_counts() -> None:
    counts = {COUNTS: {"workers": 2, "desired_workers": 5}}
    async with (
        a_scheduler(counts) as without_the_api,
        a_scheduler({**counts, TARGET: {"workers": 7}}) as there,
    ):
        assert await HttpSchedulers().desired_workers(there) == 7
        assert await HttpSchedulers().desired_workers(without_the_api) == 5


WORKERS: Sequence[Any] = None, -1, False, 2.5, "3", {}
HOSTILE = "no JSON", "[" * 100_000, '{"workers": ' + "1" * 9_000 + "}", " " * LONGEST_ANSWER + "{}"


@pytest.mark.parametrize(
    "answer",
    [{}, [], *({"workers": value} for value in WORKERS), *HOSTILE],
    ids=lambda answer: str(answer)[:14],
)
async def test_an_answer_that_is_no_number_of_workers_is_a_failure(answer: Any) -> None:
    async with a_scheduler({TARGET: answer}) as there:
        with pytest.raises(SchedulerFailed):
            await HttpSchedulers().desired_workers(there)


async def test_a_scheduler_that_redirects_or_fails_is_not_followed_nor_asked_for_its_counts() -> None:
    application = web.Application()
    asked: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPFound(COUNTS)

    async def counts(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"workers": 9, "desired_workers": 9})

    application.router.add_get(TARGET, elsewhere)
    application.router.add_get(COUNTS, counts)
    async with TestServer(application) as there:
        with pytest.raises(SchedulerFailed, match="302 from"):
            await HttpSchedulers().desired_workers(str(there.make_url("")))
    assert asked == [TARGET]


@pytest.mark.parametrize(
    ("answer", "since"),
    [({"idle_since": 17.5}, 17.5), ({"idle_since": None}, None), ({"idle_since": 0}, None)],
)
async def test_a_scheduler_is_idle_since_a_time_or_at_work(answer: Any, since: float | None) -> None:
    async with a_scheduler({IDLE: answer}) as there:
        assert await HttpSchedulers().idle_since(there) == since


@pytest.mark.parametrize("answer", [{}, {"idle_since": "now"}, {"idle_since": True}, []], ids=str)
async def test_an_answer_that_is_no_time_is_a_failure(answer: Any) -> None:
    async with a_scheduler({IDLE: answer}) as there:
        with pytest.raises(SchedulerFailed):
            await HttpSchedulers().idle_since(there)
