"""A client of Dask schedulers: one request over HTTP, and one error for all that can go wrong."""

from collections.abc import Callable, Sequence
from typing import Protocol

import aiohttp
from attrs import frozen

TIMEOUT = aiohttp.ClientTimeout(total=10)


class SchedulerFailed(Exception):
    """A scheduler did not answer, or does not serve the API, which is an option of Dask's."""


class Schedulers(Protocol):
    """Raises SchedulerFailed. `url` is that of a scheduler's dashboard."""

    async def retire(self, url: str, workers: Sequence[str]) -> None:
        """Move what these workers hold to others, and give them no more work."""
        ...


@frozen
class HttpSchedulers:
    """The schedulers of the cluster, by the routes `distributed.http.scheduler.api`."""

    connector: Callable[[], aiohttp.BaseConnector] = aiohttp.TCPConnector

    async def retire(self, url: str, workers: Sequence[str]) -> None:
        try:
            async with (
                aiohttp.ClientSession(url, connector=self.connector(), timeout=TIMEOUT) as http,
                http.post("/api/v1/retire_workers", json={"names": list(workers)}) as answer,
            ):
                if not answer.ok:
                    raise SchedulerFailed(f"{answer.status} from {url}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SchedulerFailed(f"no answer from {url}") from error
