"""A client of a billing system: four requests over HTTP, and one error for all that can go wrong."""

from collections.abc import Callable
from typing import Any

import aiohttp
from attrs import frozen

TIMEOUT = aiohttp.ClientTimeout(total=10)


@frozen
class Bill:
    """A customer's account in the billing system."""

    number: str
    plan: str


class BillingFailed(Exception):
    """The billing system did not answer, or refused: a timeout, a 503, a plan that it does not know."""


@frozen
class Billing:
    """Each may raise BillingFailed. `reference` is ours: a billing system stores it with its own number."""

    url: str
    connector: Callable[[], aiohttp.BaseConnector] = aiohttp.TCPConnector

    async def find(self, reference: str) -> Bill | None:
        found = await self._ask("GET", "/accounts", params={"reference": reference})
        return next((_bill(one) for one in found["items"]), None)

    async def open(self, reference: str, plan: str) -> Bill:
        return _bill(await self._ask("POST", "/accounts", json={"reference": reference, "plan": plan}))

    async def change(self, number: str, plan: str) -> Bill:
        return _bill(await self._ask("PATCH", f"/accounts/{number}", json={"plan": plan}))

    async def close(self, number: str) -> None:
        await self._ask("DELETE", f"/accounts/{number}")

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        try:
            async with (
                aiohttp.ClientSession(self.url, connector=self.connector(), timeout=TIMEOUT) as http,
                http.request(method, path, **more) as answer,
            ):
                if method == "DELETE" and answer.status in (204, 404):  # closed, if not by this request
                    return None
                if not answer.ok:
                    raise BillingFailed(f"{answer.status} from {answer.url.host}")
                return await answer.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BillingFailed(f"no answer from {self.url}") from error


def _bill(body: dict[str, str]) -> Bill:
    return Bill(body["number"], body["plan"])
