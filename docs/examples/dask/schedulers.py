"""A client of Dask schedulers: three requests over HTTP, and one error for all that can go wrong."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import aiohttp
from attrs import frozen

QUESTION = aiohttp.ClientTimeout(total=5)
RETIREMENT = aiohttp.ClientTimeout(total=120, sock_connect=5)
"""The answer comes when what the workers held has been moved, which may be gigabytes."""
LONGEST_ANSWER = 1 << 20
"""Bytes. A scheduler is a pod of users, so its answers are not trusted."""


class SchedulerFailed(Exception):
    """A scheduler did not answer, or not with what was asked for; `status` is that of its answer, if any."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Schedulers(Protocol):
    """Each raises SchedulerFailed. `url` is that of a scheduler's dashboard."""

    async def retire(self, url: str, workers: Sequence[str]) -> None:
        """Move what these workers hold to others, and give them no more work."""
        ...

    async def desired_workers(self, url: str) -> int:
        """How many workers the scheduler could use now."""
        ...

    async def idle_since(self, url: str) -> float | None:
        """When the scheduler ran out of work, by its own clock; None while it has some."""
        ...


@frozen
class HttpSchedulers:
    """The schedulers of the cluster, by the routes `distributed.http.scheduler.api`, which Dask can serve."""

    connector: Callable[[], aiohttp.BaseConnector] = aiohttp.TCPConnector

    async def retire(self, url: str, workers: Sequence[str]) -> None:
        await self._ask(url, "/api/v1/retire_workers", {"names": list(workers)})

    async def desired_workers(self, url: str) -> int:
        try:
            path, name = "/api/v1/adaptive_target", "workers"
            answer = await self._ask(url, path)
        except SchedulerFailed as error:
            if error.status != 404:
                raise
            path, name = "/json/counts.json", "desired_workers"  # the same number, and served by default
            answer = await self._ask(url, path)
        desired = _value_of(answer, name)
        if type(desired) is not int or desired < 0:  # a bool is an int too
            raise SchedulerFailed(f"no number of workers from {url}{path}")
        return desired

    async def idle_since(self, url: str) -> float | None:
        path = "/api/v1/check_idle"
        since = _value_of(await self._ask(url, path), "idle_since")
        if since is None or type(since) in (int, float):
            return since or None
        raise SchedulerFailed(f"no time from {url}{path}")

    async def _ask(self, url: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a question; that to a request with a body is not read."""
        method, timeout = ("GET", QUESTION) if body is None else ("POST", RETIREMENT)
        try:
            async with (
                aiohttp.ClientSession(
                    url, connector=self.connector(), timeout=timeout, auto_decompress=False
                ) as http,
                http.request(method, path, json=body, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise SchedulerFailed(f"{answer.status} from {url}{path}", answer.status)
                return json.loads(await _whole(answer.content)) if body is None else None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SchedulerFailed(f"no answer from {url}") from error
        except (ValueError, RecursionError) as error:
            raise SchedulerFailed(f"no JSON from {url}{path}") from error


async def _whole(content: aiohttp.StreamReader) -> bytes:
    """The answer. Raises ValueError for one that is too long."""
    read = bytearray()
    async for chunk in content.iter_any():
        read += chunk
        if len(read) > LONGEST_ANSWER:
            raise ValueError("the answer is too long")
    return bytes(read)


def _value_of(answer: Any, name: str) -> Any:
    """The value of that name. Raises SchedulerFailed where there is none."""
    if not isinstance(answer, dict) or name not in answer:
        raise SchedulerFailed(f"an answer without {name!r}")
    return cast(dict[str, Any], answer)[name]
