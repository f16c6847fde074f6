"""Serves the embedded server over HTTP(S), by default on loopback only.

A request is read whole before the server gets it. Protobuf bodies are translated to JSON.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager

import anyio
from aiohttp import web
from aiohttp.http import HttpProcessingError, HttpVersion10, HttpVersion11
from attrs import define, field, frozen

from informers.loopback import is_loopback
from informers.transport import Response
from reconcile.embedded.api import ApiRequest
from reconcile.embedded.auth import ADMIN, ANONYMOUS, User
from reconcile.embedded.auth.attributes import unauthorized
from reconcile.embedded.kubectl import protobuf
from reconcile.embedded.listener.certificates import Authority, ServingCertificate, make_certificate
from reconcile.embedded.listener.connections import MAX_HEAD, BodyReads, HttpConnections, check_head
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.server import ApiServer
from reconcile.embedded.verbs.answers import failure_response
from reconcile.embedded.verbs.bodies import WARNING
from reconcile.embedded.verbs.watching import WatchStream

PATIENCE = 30.0  # seconds for which a client may stop reading before its connection is closed
# Requests in progress at once, not counting watches: kube-apiserver's --max-requests-inflight (400) and
# --max-mutating-requests-inflight (200) together.
MAX_IN_FLIGHT = 600
# Seconds that a read waits for a version to be reached before it answers 504: blockTimeout in watch_cache.go.
CATCHING_UP = 3.0
# Short compared with CATCHING_UP, and long enough that waiting reads cost nothing.
_POLL_PERIOD = 0.05
_BATCH = 1024 * 1024
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
# Open watches end in this time when the server stops; a test that serves would wait for it.
_CLOSING = 0.5
_DOTS_IN_JWT = 2
MAX_SENDING = 512 * 1024 * 1024  # bytes of all answers to reads that are being sent at once
_MOST_HEADERS = 2000

log = logging.getLogger(__name__)


def _is_ours(record: logging.LogRecord) -> bool:
    """Malformed HTTP gets a 400 and is not logged: it is routine, and may contain the sender's secrets."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.addFilter(_is_ours)


class NotLoopback(ValueError):
    """Other machines can reach the host, and `allow_remote` is not set."""


@frozen
class ServerHandle:
    """A server that listens on a port."""

    url: str
    """Scheme, address and port, without a slash at the end."""
    port: int
    ca_pem: bytes | None
    """The CA that clients must trust; None over plain HTTP."""
    token: str | None = field(repr=False)
    """The bearer token that clients must send; None if none is required."""


@asynccontextmanager
async def serve(
    server: ApiServer,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    tls: bool = True,
    token: str | None = None,
    users: Mapping[str, User] | None = None,
    allow_remote: bool = False,
    patience: float = PATIENCE,
    max_in_flight: int = MAX_IN_FLIGHT,
    authority: Authority | None = None,
) -> AsyncIterator[ServerHandle]:
    """Serve `server` until the context is left; the caller runs its controllers (`server.run()`).

    Port 0 takes a free one. `token` is the administrator's; without it, requests that carry no other token
    act as the administrator. `users` maps further tokens to users; tokens of service accounts are always
    accepted. While `max_in_flight` requests are in progress (arrived whole, watches not counted), others get
    429. `authority` signs the certificate; without it, a new one does. Leaving the context ends open watches
    cleanly and takes at most half a second.

    Raises:
        NotLoopback: Other machines can reach the host, and `allow_remote` is not set.
        OSError: The port is taken.
    """
    if not allow_remote and not is_loopback(host):
        raise NotLoopback(
            f"{host} can be reached from other machines; the embedded server serves loopback only"
        )
    certificate = make_certificate(host, authority=authority) if tls else None
    tokens = {**(users or {}), **({token: ADMIN} if token is not None else {})}
    handler = _Handler(server, token, patience, max_in_flight)
    with server.tokens.knowing(tokens):
        async with _listening(handler, host, port, certificate) as bound:
            name = f"[{host}]" if ":" in host else host
            yield ServerHandle(
                url=f"{'https' if certificate else 'http'}://{name}:{bound}",
                port=bound,
                ca_pem=certificate.ca_pem if certificate else None,
                token=token,
            )


@asynccontextmanager
async def _listening(
    handler: "_Handler", host: str, port: int, certificate: ServingCertificate | None
) -> AsyncIterator[int]:
    runner = web.ServerRunner(handler.connections, shutdown_timeout=_CLOSING)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=certificate.context if certificate else None)
        await site.start()
        yield site.port
    finally:
        # Watches first: the runner waits for answers under way, and a watch does not end by itself.
        for watch in list(handler.watches):
            watch.close()
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


@define
class _Handler:
    server: ApiServer
    token: str | None
    patience: float
    max_in_flight: int
    in_flight: int = 0
    sending: int = 0
    connections: HttpConnections = field(init=False)
    bodies: BodyReads = field(factory=BodyReads)
    watches: set[WatchStream] = field(factory=set)

    @connections.default
    def _connections(self) -> HttpConnections:
        return HttpConnections(
            self.answer,
            handler_cancellation=True,
            access_log=None,
            logger=_protocol_log,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
            max_headers=_MOST_HEADERS,
            auto_decompress=False,
        )

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        with self.connections.serving(request):
            if request.version not in (HttpVersion10, HttpVersion11):
                return _other_version()
            asked = await self._asked(request)
            if isinstance(asked, Response):
                return await self._send(request, asked)
            return await self._answered(request, asked)

    async def _asked(self, request: web.BaseRequest) -> ApiRequest | Response:
        """The complete request, or the answer to one that is refused before it has arrived whole."""
        try:
            check_head(request)
            user = self._user(request)
            return _read(self.server, request, user, await self.bodies.read(request))
        except ApiFailure as failure:
            return failure_response(failure)
        except Exception as error:
            return _unexpected(request, error)

    async def _answered(self, request: web.BaseRequest, asked: ApiRequest) -> web.StreamResponse:
        if self.in_flight >= self.max_in_flight:
            return _too_many()
        self.in_flight += 1
        try:
            outcome = await self._outcome(request, asked)
            if isinstance(outcome, Response):
                # An answer that is larger than the limit by itself still goes out, alone.
                crowded = self.sending > 0 and self.sending + len(outcome.body) > MAX_SENDING
                if crowded and request.method == "GET":  # a write is done, so its answer must go out
                    return _too_many()
                return await self._send(request, outcome)
        finally:
            self.in_flight -= 1
        return await self._stream(request, outcome)

    async def _outcome(self, request: web.BaseRequest, asked: ApiRequest) -> Response | WatchStream:
        try:
            outcome = await self.server.respond(asked)
            if not isinstance(outcome, WatchStream) and outcome.status == 504:
                await self._catch_up(asked)
                outcome = await self.server.respond(asked)
            return outcome
        except Exception as error:
            return _unexpected(request, error)

    async def _send(self, request: web.BaseRequest, answer: Response) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        if "warning" in answer.headers:  # one line each, as clients count them
            del response.headers["warning"]
            for warning in WARNING.findall(answer.headers["warning"]):
                response.headers.add("warning", warning)
        if answer.status == 408:  # the rest of its body is still to come
            response.force_close()
        end = _line_end(answer)
        response.content_length = len(answer.body) + len(end)
        self.sending += len(answer.body)  # until the client has read it
        try:
            await response.prepare(request)
            pieces = _pieces(answer.body, end) if request.method != "HEAD" else ()
            if await self._taken(request, response, pieces):
                await response.write_eof()
        except ConnectionError:
            pass  # the client has disconnected
        finally:
            self.sending -= len(answer.body)
        return response

    async def _catch_up(self, asked: ApiRequest) -> None:
        """Wait at most `CATCHING_UP` seconds for the requested version, as a real server does."""
        version = asked.query.get("resourceVersion", "")
        wanted = int(version) if version.isdecimal() else 0
        with anyio.move_on_after(CATCHING_UP):
            while self.server.version < wanted:  # noqa: ASYNC110 - too rare for a listener on every change
                await anyio.sleep(_POLL_PERIOD)

    def _user(self, request: web.BaseRequest) -> User:
        """The user of a request. Raises ApiFailure (401) if its token is unknown or missing."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        user = self.server.tokens.user_of(given) if given else None
        if user is not None:
            return user
        if self.token is None and given.count(".") != _DOTS_IN_JWT:
            return ADMIN  # no token is asked for, so any other credentials are ignored
        # With RBAC the roles decide what an anonymous request may do; without, nothing would hold it back.
        if not given and (self.server.access.enforced or request.path in _OPEN_PATHS):
            return ANONYMOUS
        raise unauthorized()

    async def _stream(self, request: web.BaseRequest, watch: WatchStream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": watch.content_type})
        self.watches.add(watch)
        try:
            await response.prepare(request)
            while await self._taken(request, response, _batches(watch.take())):
                if watch.closed:
                    await response.write_eof()
                    break
                await watch.wait()
        except ConnectionError:
            pass  # the client has disconnected, which is how most watches end
        finally:
            self.watches.discard(watch)
            watch.close()
        return response

    async def _taken(
        self, request: web.BaseRequest, response: web.StreamResponse, pieces: Iterable[bytes]
    ) -> bool:
        """Write the pieces; False if the client stopped reading, which closes its connection."""
        for piece in pieces:
            with anyio.move_on_after(self.patience) as limit:
                await response.write(piece)
            if limit.cancelled_caught:
                log.warning(
                    "closed the answer to %s: its client read nothing for %s s", request.path, self.patience
                )
                if request.transport is not None:
                    request.transport.abort()
                return False
        return True


def _batches(lines: list[bytes]) -> Iterator[bytes]:
    """Join the lines into pieces of about `_BATCH` bytes."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= _BATCH:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)


def _read(server: ApiServer, request: web.BaseRequest, user: User, body: bytes) -> ApiRequest:
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]},{_text(value)}" if key in headers else _text(value)
    query = dict(reversed([*request.query.items()]))  # the first of several values counts
    if headers.get("content-type", "").startswith(protobuf.CONTENT_TYPE):
        body = server.protobuf.to_json(body)
        headers["content-type"] = "application/json"
    return ApiRequest(request.method, request.path, query, headers, body, user)


def _text(value: str) -> str:
    """A header's value; aiohttp decodes bytes that are not UTF-8 to halves of surrogate pairs."""
    return value if value.isascii() else value.encode(errors="surrogateescape").decode(errors="replace")


def _line_end(answer: Response) -> bytes:
    """The newline after a JSON document, which Go's encoder writes and clients' error texts contain."""
    return b"\n" if answer.headers.get("content-type") == "application/json" and answer.body else b""


def _pieces(body: bytes, end: bytes) -> Iterator[bytes]:
    """The body and its end, in pieces of about `_BATCH` bytes."""
    for at in range(0, len(body), _BATCH):
        piece = body[at : at + _BATCH]
        yield piece + end if at + _BATCH >= len(body) else piece


def _unexpected(request: web.BaseRequest, error: Exception) -> Response:
    log.exception("request failed: %s %s", request.method, request.path)
    return failure_response(ApiFailure(500, "InternalError", f"Internal error occurred: {error}"))


def _too_many() -> web.Response:
    """The answer under overload, in plain text: all other errors are Status objects."""
    return web.Response(
        status=429, text="Too many requests, please try again later.\n", headers={"Retry-After": "1"}
    )


def _other_version() -> web.Response:
    response = web.Response(status=505, text="505 HTTP Version Not Supported: unsupported protocol version\n")
    response.force_close()
    return response
