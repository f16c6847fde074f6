"""The transport over HTTPS, to the API server that a kubeconfig or the pod's own account names."""

import asyncio
import os
import socket
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import anyio
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import AddrInfoType
from aiohttp.connector import Connection as HttpConnection
from attrs import frozen
from yarl import URL

from informers.api_errors import OutcomeUnknown, TransportError, Unreachable
from informers.cancellation import asked_to_end, cancel_requests
from informers.cluster_connection import (
    ClusterConnection,
    ConfigurationProblem,
    find_kubeconfig,
    without_user,
)
from informers.credentials import Credentials, Proof
from informers.transport import HttpRequest, Response, StreamingResponse, about_to_send

# The part of a User-Agent before the slash is the field manager of writes that name none.
USER_AGENT = "reconcile-runtime/0.1"

_PARALLEL_REQUESTS = 100
_URGENT = ("/apis/coordination.k8s.io/", "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
_READ_BUFFER = 1 << 18
_HEADER_BYTES = 1 << 16
# Sub-delimiters, `:` and `@` stand for themselves in a path: system:node:a is a name.
_PATH_SAFE = "/:@!$&'()*+,;=~"
# A half-open connection is noticed after 30 + 3 * 10 seconds.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


@frozen
class Timeouts:
    """Limits in seconds. A server's own limit for a request is 60; ours is longer, to get its answer.

    `connect` covers the wait for a free connection, DNS, TCP and TLS; `answer` a whole request; `headers` the
    beginning of a stream. A stream that has begun has no limit: its reader decides when it has been silent
    too long.
    """

    connect: float = 10.0
    answer: float = 65.0
    headers: float = 30.0


async def connect(
    kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None
) -> "KubernetesTransport":
    """A transport to the chosen cluster: the argument, $KUBECONFIG, the pod's own account, ~/.kube/config.

    Reads configuration and runs an exec plugin if one is named; sends nothing yet. Raises
    `ConfigurationProblem` with one line that says what is wrong.
    """
    found = find_kubeconfig(kubeconfig, context, os.environ)
    if found == "in-cluster":
        from informers.service_account import load_in_cluster

        return KubernetesTransport(*load_in_cluster())
    # A pod needs no YAML, nor the library that loads what kubeconfigs name.
    from informers.kubeconfig import choose_context
    from informers.kubeconfig_credentials import load

    chosen = choose_context(found, context)
    credentials = await load(chosen.paths, chosen.connection.context)
    return KubernetesTransport(chosen.connection, credentials)


class KubernetesTransport:
    """Sends requests over one pool of connections, and each stream over its own connection.

    After a 401 a request is sent again if looking again found other credentials. A write is otherwise never
    repeated; a read is, if the server had closed an idle connection.
    """

    def __init__(
        self, connection: ClusterConnection, credentials: Credentials, timeouts: Timeouts | None = None
    ) -> None:
        self.connection = connection
        self._credentials = credentials
        self._timeouts = timeouts or Timeouts()
        self._proxy = _proxy_for(connection, credentials)
        # As kubectl does: over plain HTTP every machine on the way could read the token.
        self._proves = connection.server.startswith("https://") or connection.loopback
        self._sessions = _Sessions.open(connection, credentials, self._timeouts)
        self._shown = credentials.certificates
        self._retired: _Sessions | None = None
        self._closed = False

    @property
    def server(self) -> str:
        return self.connection.server

    async def request(self, request: HttpRequest) -> Response:
        with _Explaining(self, request, self._timeouts.answer):
            reply = await self._send(request, stream=False)
            async with reply:
                return Response(reply.status, _headers(reply), await reply.read())

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        explaining = _Explaining(self, request, self._timeouts.headers)
        with explaining, anyio.fail_after(self._timeouts.headers):
            reply = await self._send(request, stream=True)
        try:
            yield StreamingResponse(reply.status, _headers(reply), _Chunks(reply.content, explaining))
        finally:
            reply.close()

    async def aclose(self) -> None:
        """Close all connections. Requests in progress fail, and so do later ones."""
        self._closed = True
        await self._credentials.aclose()
        for sessions in filter(None, (self._sessions, self._retired)):
            await sessions.close()

    async def _send(self, request: HttpRequest, *, stream: bool) -> aiohttp.ClientResponse:
        proof = await self._credentials.proof()
        reply = await self._send_once(request, proof, stream)
        if reply.status != 401 or not await self._credentials.renew(proof):
            return reply
        reply.close()
        return await self._send_once(request, await self._credentials.proof(), stream)

    async def _send_once(self, request: HttpRequest, proof: Proof, stream: bool) -> aiohttp.ClientResponse:
        sessions = await self._sessions_showing(proof)
        session = sessions.streams if stream else sessions.of(request)
        return await session.request(
            request.method,
            _url(self.server, request),
            headers=self._proving(request.headers, proof),
            data=request.body,
            allow_redirects=False,
            proxy=self._proxy,
            server_hostname=self._credentials.tls_server_name,
        )

    def _proving(self, headers: Mapping[str, str], proof: Proof) -> Mapping[str, str]:
        if proof.authorization is None or not self._proves:
            return headers
        return {**headers, "Authorization": proof.authorization}

    async def _sessions_showing(self, proof: Proof) -> "_Sessions":
        """A connection presents its certificate once, so new certificates need new connections.

        Streams and requests in progress keep the old ones until the certificates change again, which is
        longer than any request takes; a stream that ends then is resumed like any other.
        """
        if proof.certificates == self._shown:
            return self._sessions
        retired = self._retired
        self._retired = self._sessions
        self._sessions = _Sessions.open(self.connection, self._credentials, self._timeouts)
        self._shown = proof.certificates
        if retired:
            await retired.close()
        return self._sessions

    @property
    def closed(self) -> bool:
        return self._closed

    def explained(self, error: Exception, request: str, seconds: float) -> TransportError:
        """What an exception of the HTTP library means for a request that may take `seconds`."""
        return explain(error, request, self.connection, self._timeouts.connect, seconds)


class _Explaining:
    """Turns errors of the HTTP library into those of a transport; may be entered any number of times.

    A stream enters it for each chunk, so it is a class, which costs a quarter of a generator.
    """

    __slots__ = ("_cancels", "_name", "_seconds", "_transport")

    def __init__(self, transport: KubernetesTransport, request: HttpRequest, seconds: float) -> None:
        self._transport = transport
        self._name = f"{request.method} {transport.server}{request.path}"
        self._seconds = seconds
        self._cancels = 0

    def __enter__(self) -> None:
        if self._transport.closed:
            raise Unreachable("this transport was closed", self._name)
        self._cancels = cancel_requests()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, aiohttp.ClientError | OSError):
            raise self._transport.explained(error, self._name, self._seconds) from error
        if isinstance(error, asyncio.CancelledError):
            # Requests share look-ups of names and connections: one that is cancelled may take others along.
            if asked_to_end() or cancel_requests() > self._cancels:
                return
            raise OutcomeUnknown("it was cancelled within the HTTP library", self._name) from error


class _Chunks:
    """The body of a stream as it comes. A generator would have to be closed as well."""

    def __init__(self, content: aiohttp.StreamReader, explaining: _Explaining) -> None:
        self._content = content
        self._explaining = explaining

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> bytes:
        with self._explaining:
            chunk = await self._content.readany()
        if not chunk:
            raise StopAsyncIteration
        return chunk


class _Request(aiohttp.ClientRequest):
    """A request that calls `about_to_send` when a connection is available for it."""

    async def send(self, conn: HttpConnection) -> aiohttp.ClientResponse:
        about_to_send()
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: HttpConnection, content_length: int | None = None
    ) -> None:
        # On Python 3.11 the body, and the headers with it, leaves in a task of its own: the loop may have
        # stood still since `send`.
        try:
            about_to_send()
        except Exception as error:
            if conn.protocol is not None:
                conn.protocol.set_exception(error)
            conn.close()
            return
        await super().write_bytes(writer, conn, content_length)


@frozen
class _Sessions:
    """Separate sets of connections, so that none waits for another's.

    `urgent` ones carry Leases and reviews: leadership and probes must not wait behind slow writes of
    reconcilers. Those and `streams` are unlimited: they are few and long-lived.
    """

    reads: aiohttp.ClientSession
    writes: aiohttp.ClientSession
    urgent: aiohttp.ClientSession
    streams: aiohttp.ClientSession

    @classmethod
    def open(cls, connection: ClusterConnection, credentials: Credentials, timeouts: Timeouts) -> "_Sessions":
        tls = credentials.tls() if connection.server.startswith("https://") else True

        def connector(limit: int) -> aiohttp.TCPConnector:
            return aiohttp.TCPConnector(limit=limit, ssl=tls, socket_factory=_keepalive_socket)

        answer = aiohttp.ClientTimeout(
            total=timeouts.answer, connect=timeouts.connect, sock_connect=timeouts.connect
        )
        endless = aiohttp.ClientTimeout(total=None, connect=timeouts.connect, sock_connect=timeouts.connect)
        requests = connector(_PARALLEL_REQUESTS)
        reads, writes = _session(requests, answer), _session(requests, answer)
        urgent = _session(connector(0), answer)
        # Sent again on a fresh connection, a PUT that was carried out would meet its own traces as a
        # conflict; aiohttp has no public switch for that.
        writes._retry_connection = urgent._retry_connection = False
        return cls(reads, writes, urgent, _session(connector(0), endless))

    def of(self, request: HttpRequest) -> aiohttp.ClientSession:
        if request.path.startswith(_URGENT):
            return self.urgent
        return self.reads if request.reads else self.writes

    async def close(self) -> None:
        for session in (self.reads, self.writes, self.urgent, self.streams):
            await session.close()


def _session(connector: aiohttp.TCPConnector, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        request_class=_Request,
        timeout=timeout,
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip"},
        skip_auto_headers=("Content-Type",),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER,
        max_line_size=_HEADER_BYTES,
        max_field_size=_HEADER_BYTES,
    )


def _keepalive_socket(address: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _url(server: str, request: HttpRequest) -> URL:
    encoded = urlencode(request.query, quote_via=quote, safe="")
    return URL(
        f"{server}{quote(request.path, safe=_PATH_SAFE)}{'?' if encoded else ''}{encoded}", encoded=True
    )


def _headers(reply: aiohttp.ClientResponse) -> dict[str, str]:
    merged: dict[str, str] = {}
    for name, value in reply.headers.items():
        name = name.lower()
        # Several Warning headers are one list, as HTTP has it.
        merged[name] = f"{merged[name]}, {value}" if name in merged else value
    return merged


def _proxy_for(connection: ClusterConnection, credentials: Credentials) -> str | None:
    """The kubeconfig's proxy, else the environment's, which never applies to this machine."""
    parts = urlsplit(connection.server)
    proxy = credentials.proxy
    if not proxy and not connection.loopback and not urllib.request.proxy_bypass(parts.netloc):
        proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigurationProblem(
            f"the proxy {without_user(proxy)} for {connection.server} is not supported: "
            "only http and https proxies are"
        )
    return proxy


def explain(
    error: Exception,
    request: str,
    connection: ClusterConnection,
    connect_seconds: float,
    answer_seconds: float,
) -> TransportError:
    """Turn an exception of the HTTP library into whether the server can have acted, and what to do."""
    if (problem := _before_sending(error, connection, connect_seconds)) is not None:
        return Unreachable(problem, request)
    match error:
        case TimeoutError():
            problem = f"no whole answer within {answer_seconds:g} s"
        case aiohttp.ClientResponseError():
            problem = f"the answer is not HTTP: {error.message}"
        case _:
            problem = (
                f"the connection was cut before the answer was whole: {str(error) or type(error).__name__}"
            )
    return OutcomeUnknown(problem, request)


def _before_sending(error: Exception, connection: ClusterConnection, connect_seconds: float) -> str | None:
    """What prevented a connection; None if the error came from an established one."""
    context = connection.context
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            return (
                f"the server's certificate is not to be trusted: {reason}. If it is the right server, "
                f"the certificate-authority of context {context} is not the one that signed it"
            )
        case aiohttp.ClientConnectorSSLError():
            return (
                f"no TLS: {error.os_error}. Is it an https server, and is our certificate the one it wants?"
            )
        case aiohttp.ClientProxyConnectionError():
            return (
                f"the proxy does not answer: {error.os_error}. "
                "Check the kubeconfig's proxy-url, or HTTPS_PROXY and NO_PROXY"
            )
        case aiohttp.ClientHttpProxyError():
            return f"the proxy refused: {error.status} {error.message}"
        case aiohttp.ClientConnectorDNSError():
            return (
                f"there is no host {error.host}: check the server of context {context}, "
                "and whether a VPN is needed"
            )
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
            return (
                f"nothing listens at {error.host}:{error.port}: "
                f"is the API server of context {context} running?"
            )
        case aiohttp.ClientConnectorError():
            return f"no connection: {error.os_error}"
        case aiohttp.ConnectionTimeoutError():
            return (
                f"no connection within {connect_seconds:g} s: "
                "is the server up, and is a firewall or VPN in the way?"
            )
        case _:
            return None
