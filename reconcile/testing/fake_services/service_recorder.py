"""Records what a real service answers, without its secrets."""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import msgspec
from attrs import define, field, frozen

from reconcile.client.redaction import texts_in
from reconcile.testing.fake_services.recorded_service import (
    MOST_EXCHANGES,
    RecordedExchange,
    RecordedService,
    is_deep,
)

if TYPE_CHECKING:
    import aiohttp
    import httpx

SECRET_NAMES: Final = re.compile(
    r"secret|token|passw|pwd|authorization|bearer|api.?key|access.?key|credential|private|cookie|session"
    r"|signature|kubeconfig|connection.?string|^(auth|dsn|jwt|otp|pin|sig)$",
    re.IGNORECASE,
)
"""Names of fields, parameters and headers whose values are masked, beside those that are named."""
_SHAPES: Final = (
    re.compile(r"://[^/\s:@]*:([^/\s@]+)@"),
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----.*?)(?:-----END|$)", re.DOTALL),
    re.compile(r"\b(eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"),
)
"""Secrets that show in any text: passwords in URLs, private keys, JSON web tokens."""
SHORTEST: Final = 4
"""Shorter secrets (in characters) are masked in their own field alone: they occur in ordinary words."""
_REQUEST_HEADERS = frozenset({"content-type", "idempotency-key", "if-match", "prefer"})
_ANSWER_HEADERS = frozenset({"content-type", "retry-after", "location", "etag", "link"})


@contextmanager
def record_service(
    path: str | Path, *, secret: Sequence[str] = (), most: int = MOST_EXCHANGES
) -> "Iterator[ServiceRecorder]":
    """Record what a real service answers, and write it to a file at the end, for `RecordedService.read`.

    Of headers only those are kept that say something about the answer, and no credentials. The values of
    `secret` fields and parameters, and of all with names such as `token` or `password`, are replaced by
    `<secret 1>`, `<secret 2>`, … wherever they occur; equal ones stay equal. So are passwords in URLs,
    private keys and JSON web tokens in any text. A body that is not JSON is not kept. Of more than `most`
    answers the first are.
    """
    recorder = ServiceRecorder(frozenset(secret), min(most, MOST_EXCHANGES))
    try:
        yield recorder
    finally:
        recorder.recorded().write(path)


@frozen
class _Seen:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    status: int
    answer_headers: Mapping[str, str]
    answer: bytes
    at: float


@define(eq=False)
class ServiceRecorder:
    """Records requests and answers, of aiohttp by `aiohttp_middleware`, of httpx by `httpx_transport`."""

    _secret: frozenset[str]
    _most: int
    _seen: list[_Seen] = field(factory=list, init=False)

    def add(
        self,
        method: str,
        target: str,
        body: bytes,
        status: int,
        answer: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        answer_headers: Mapping[str, str] | None = None,
    ) -> None:
        """Record one request (`target`: path and query) and its answer, of any other client."""
        if len(self._seen) >= self._most:
            return
        loop = asyncio._get_running_loop()
        at = 0.0 if loop is None else loop.time()
        self._seen.append(
            _Seen(method, target, _lower(headers), body, status, _lower(answer_headers), answer, at)
        )

    async def aiohttp_middleware(
        self,
        request: "aiohttp.ClientRequest",
        handler: "Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]",
    ) -> "aiohttp.ClientResponse":
        """For `aiohttp.ClientSession(middlewares=[recorder.aiohttp_middleware])`."""
        body: Any = request.body
        sent = bytes(body) if isinstance(body, bytes | bytearray) else await body.as_bytes()
        answer = await handler(request)
        self.add(
            request.method,
            request.url.raw_path_qs,
            sent,
            answer.status,
            await answer.read(),
            headers=request.headers,
            answer_headers=answer.headers,
        )
        return answer

    def httpx_transport(self, inner: "httpx.AsyncBaseTransport") -> "httpx.AsyncBaseTransport":
        """For `httpx.AsyncClient(transport=recorder.httpx_transport(httpx.AsyncHTTPTransport()))`."""
        from reconcile.testing.fake_services.httpx_clients import RecordingTransport

        return RecordingTransport(inner, self.add)

    def recorded(self) -> RecordedService:
        """What was recorded so far, masked."""
        masked = _Masked(self._secret)
        for seen in self._seen:
            masked.learn(seen)
        exchanges: list[RecordedExchange] = []
        before: float | None = None
        for seen in self._seen:
            after = 0.0 if before is None else max(0.0, seen.at - before)
            before = seen.at
            exchanges.append(masked.exchange(seen, round(after, 3)))
        return RecordedService(tuple(exchanges))


@define
class _Masked:
    """Which secrets there are, and what replaces each."""

    _names: frozenset[str]
    _places: dict[str, str] = field(factory=dict)
    _forms: list[tuple[str, str]] = field(factory=list)
    """Each form of each secret and what replaces it, the shortest first; made when all are learnt."""

    def learn(self, seen: _Seen) -> None:
        """Find the secrets of one request and its answer, so that they are masked wherever they occur."""
        for headers in (seen.headers, seen.answer_headers):
            for name, value in headers.items():
                if self._is_secret(name):
                    for part in re.split(r"[\s;,]+", value):
                        self._learn(part.partition("=")[2] or part)
                        self._learn(_password(part))
        self._learn_fields(dict(_query(seen.target)))
        self._learn_fields(_json(seen.body))
        self._learn_fields(_json(seen.answer))
        for text in (unquote(seen.target), *texts_in([_json(seen.body), _json(seen.answer)], names=True)):
            for shape in _SHAPES:
                for found in shape.findall(text):
                    self._learn(found)

    def exchange(self, seen: _Seen, after: float) -> RecordedExchange:
        parts = urlsplit(seen.target)
        return RecordedExchange(
            method=seen.method.upper(),
            path=self._text(parts.path or "/"),
            status=seen.status,
            after=after,
            query=self._value(dict(_query(seen.target))),
            headers=self._headers(seen.headers, _REQUEST_HEADERS),
            body=self._value(_json(seen.body)),
            answer_headers=self._headers(seen.answer_headers, _ANSWER_HEADERS),
            answer=self._value(_json(seen.answer)),
        )

    def _is_secret(self, name: str) -> bool:
        return name in self._names or bool(SECRET_NAMES.search(name))

    def _learn(self, text: str) -> None:
        if text and text not in self._places:
            self._places[text] = f"<secret {len(self._places) + 1}>"
            self._forms = []

    def _learn_fields(self, value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                self._learn_fields(item)
        elif isinstance(value, dict):
            for name, item in value.items():
                if self._is_secret(name):
                    for text in _scalars(item):
                        self._learn(text)
                else:
                    self._learn_fields(item)

    def _headers(self, headers: Mapping[str, str], kept: frozenset[str]) -> dict[str, str]:
        return {name: self._text(value) for name, value in headers.items() if name in kept}

    def _value(self, value: Any, secret: bool = False) -> Any:
        if isinstance(value, dict):
            return {
                self._text(name): self._value(item, secret or self._is_secret(name))
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self._value(item, secret) for item in value]
        if secret and value is not None and not isinstance(value, bool):
            return self._places.get(_scalar(value), "")
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        """A text without secrets. All at once: one may be a part of another, or of `<secret 1>`."""
        # A long recording has thousands of tokens, and most texts are shorter than any.
        fitting = takewhile(lambda one: len(one[0]) <= len(text), self._all_forms())
        present = {form: place for form, place in fitting if form in text}
        if not present:
            return text
        longest_first = sorted(present, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, longest_first)), lambda found: present[found[0]], text)

    def _all_forms(self) -> Sequence[tuple[str, str]]:
        if not self._forms:
            places = {form: place for value, place in self._places.items() for form in _forms(value)}
            self._forms = sorted(places.items(), key=lambda one: len(one[0]))
        return self._forms


def _forms(value: str) -> set[str]:
    """A secret as texts and URLs have it; nothing for one so short that ordinary words have it."""
    return (
        {value, quote(value), quote(value, safe=""), quote_plus(value)} if len(value) >= SHORTEST else set()
    )


def _password(part: str) -> str:
    """The password of basic authentication; empty for anything else."""
    try:
        return base64.b64decode(part, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}


def _query(target: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(target).query, keep_blank_values=True)


def _json(content: bytes) -> Any:
    """The JSON of a body; None for any other, and for one that is nested absurdly."""
    try:
        value = msgspec.json.decode(content) if content else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if is_deep(value) else value


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    elif value is not None and not isinstance(value, bool):
        yield _scalar(value)


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
