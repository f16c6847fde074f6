"""Sends a client's requests: typed errors, retries only where they are safe, warnings, a rate limit."""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import anyio
import msgspec
from attrs import define, field

from informers import (
    ApiError,
    Clock,
    Forbidden,
    HttpRequest,
    MalformedAnswer,
    OutcomeUnknown,
    Reachability,
    Response,
    ServerError,
    TooManyRequests,
    Transport,
    Unreachable,
    error_from_response,
    get_logger,
)
from informers.api_errors import parsed
from reconcile.client.request_limiter import RequestLimiter

R = TypeVar("R")

FieldValidation = Literal["Ignore", "Warn", "Strict"]

RETRIES = 3
FIRST_WAIT = 0.1
LONGEST_WAIT = 10.0
"""Seconds. A request that the server wants repeated later than this fails; the key's back-off takes over."""

WARNINGS_REMEMBERED = 1000

JSON = {"content-type": "application/json", "accept": "application/json"}

json_object = msgspec.json.Decoder(dict[str, Any]).decode
"""Decodes an answer that must be a JSON object."""

_log = get_logger("reconcile.client")
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_CANNOT = re.compile(r'cannot (\S+) resource "([^"]+)" in API group "([^"]*)"')


@define(eq=False)
class Sender:
    """Sends requests to one server.

    A read is repeated when no answer came, and when the server asks for it (429 or 5xx with Retry-After). A
    write is repeated only where the server cannot have acted on it: it was not reached, or answered 429 with
    Retry-After; so no create is carried out twice. Nothing is repeated while `reach` knows the server to be
    down. Each warning of the server is logged once.
    """

    transport: Transport
    clock: Clock
    limiter: RequestLimiter | None = None
    reach: Reachability | None = None
    _warned: OrderedDict[str, None] = field(factory=OrderedDict, init=False)

    async def send(
        self,
        method: str,
        path: str,
        read: Callable[[bytes], R],
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] = JSON,
        body: bytes | None = None,
    ) -> R:
        """The answer, decoded by `read`. Raises ApiError, and MalformedAnswer where decoding fails."""
        request = HttpRequest(method, path, query or {}, headers, body)
        attempt = 0
        while True:
            try:
                return parsed(read, await self._send(request), str(request))
            except ApiError as error:
                wait = retry_wait(method, error, attempt, self.clock.random)
                if wait is None or (self.reach is not None and self.reach.down):
                    raise
            attempt += 1
            await anyio.sleep(wait)

    async def _send(self, request: HttpRequest) -> bytes:
        if self.limiter is not None:
            await self.limiter.take()
        response = await self.transport.request(request)
        if "warning" in response.headers:
            self._warn(response)
        if 200 <= response.status < 300:
            return response.body
        if response.status < 400:
            raise MalformedAnswer(f"{request}: expected an answer, got a redirection ({response.status})")
        error = error_from_response(response.status, response.headers, response.body, str(request))
        raise with_missing_rule(error) if isinstance(error, Forbidden) else error

    def _warn(self, response: Response) -> None:
        for text in _WARNING.findall(response.headers["warning"]):
            if text in self._warned:
                continue
            self._warned[text] = None
            if len(self._warned) > WARNINGS_REMEMBERED:
                self._warned.popitem(last=False)
            _log.warning("the server warns", text=text.replace('\\"', '"').replace("\\\\", "\\"))


def retry_wait(method: str, error: ApiError, attempt: int, chance: Callable[[], float]) -> float | None:
    """Seconds until a failed request is repeated; None: it is not."""
    if attempt >= RETRIES:
        return None
    reading = method == "GET"
    if isinstance(error, Unreachable) or (reading and isinstance(error, OutcomeUnknown)):
        return FIRST_WAIT * 2.0**attempt * (0.5 + chance())
    if isinstance(error, TooManyRequests) or (reading and isinstance(error, ServerError)):
        asked = error.retry_after
        return None if asked is None or asked > LONGEST_WAIT else asked + FIRST_WAIT * chance()
    return None


def with_missing_rule(error: Forbidden) -> Forbidden:
    """The same error; if RBAC refused the request, its message names the missing rule."""
    found = _CANNOT.search(error.message)
    if found is None:
        return error
    verb, resource, group = found.groups()
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    return Forbidden(
        error.code,
        error.reason,
        f"{error.message}; the RBAC rule that is missing: {rule}",
        causes=error.causes,
        details=error.details,
        retry_after=error.retry_after,
        request=error.request,
    )
