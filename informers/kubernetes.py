"""The transport over HTTPS, to the API server that a kubeconfig or the pod's own account names."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from attrs import frozen

from informers.api_errors import TransportError
from informers.cluster_connection import ClusterConnection, ConfigurationProblem, find_kubeconfig
from informers.connection_problems import explained
from informers.credentials import Credentials, Proof
from informers.http import (
    Connection,
    CutOff,
    Dialer,
    HttpFailure,
    NotConnected,
    Origin,
    Pool,
    Proxy,
    Reply,
    RequestForm,
    Stage,
)
from informers.logs import get_logger
from informers.proxies import proxy_for
from informers.transport import HttpRequest, Response, StreamingResponse, about_to_send

# The part of a User-Agent before the slash is the field manager of writes that name none.
USER_AGENT = "reconcile-runtime/0.1"

_PARALLEL_REQUESTS = 100
_URGENT = ("/apis/coordination.k8s.io/", "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
_UNAUTHORIZED = 401

_log = get_logger(__name__)


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
        self._proxy = proxy_for(connection, credentials.proxy)
        # As kubectl does: over plain HTTP every machine on the way could read the token.
        self._proves = connection.server.startswith("https://") or connection.loopback
        self._form = _form_for(connection, self._proxy)
        self._pools = self._open_pools()
        self._shown = credentials.certificates
        self._retired: _Pools | None = None
        self._closed = False

    @property
    def server(self) -> str:
        return self.connection.server

    async def request(self, request: HttpRequest) -> Response:
        limit = self._timeouts.answer
        try:
            reply = await self._send(request, limit, stream=False)
            try:
                return Response(reply.status, reply.headers, await reply.read_whole())
            finally:
                reply.release()
        except HttpFailure as failure:
            raise self._explained(failure, request, limit) from failure

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        limit = self._timeouts.headers
        try:
            reply = await self._send(request, limit, stream=True)
        except HttpFailure as failure:
            raise self._explained(failure, request, limit) from failure
        reply.unlimit()
        try:
            yield StreamingResponse(reply.status, reply.headers, _Chunks(self, request, reply))
        finally:
            reply.release()

    async def aclose(self) -> None:
        """Close all connections. Requests in progress fail, and so do later ones."""
        self._closed = True
        await self._credentials.aclose()
        for pools in filter(None, (self._pools, self._retired)):
            pools.close()

    async def _send(self, request: HttpRequest, limit: float, *, stream: bool) -> Reply:
        """The reply to a request, once it has begun. Raises HttpFailure."""
        proof = await self._credentials.proof()
        reply = await self._send_as(request, proof, limit, stream)
        if reply.status != _UNAUTHORIZED:
            return reply
        try:
            renewed = await self._credentials.renew(proof)
        except BaseException:
            reply.release()
            raise
        if not renewed:
            return reply
        reply.release()
        return await self._send_as(request, await self._credentials.proof(), limit, stream)

    async def _send_as(self, request: HttpRequest, proof: Proof, limit: float, stream: bool) -> Reply:
        if self._closed:
            raise NotConnected(Stage.CLOSED, "it was closed")
        deadline = asyncio.get_running_loop().time() + limit
        pool = self._pools_showing(proof).of_request(request, stream)
        data = self._encoded(request, proof)
        connection = pool.take_idle() or await self._taken(pool)
        used = connection.answers > 0
        try:
            return await self._exchange(connection, request, data, deadline)
        except CutOff as failure:
            # Sent again, a write that was carried out would meet its own traces as a conflict.
            if not (used and request.reads and failure.silent):
                raise
        connection = await self._taken(pool, fresh=True)
        return await self._exchange(connection, request, data, deadline)

    async def _exchange(
        self, connection: Connection, request: HttpRequest, data: bytes, deadline: float
    ) -> Reply:
        try:
            reply = connection.send(data, about_to_send, without_body=request.method == "HEAD")
            connection.limit(deadline)
            await reply.until_begun()
        except BaseException:
            connection.release()
            raise
        return reply

    async def _taken(self, pool: Pool, *, fresh: bool = False) -> Connection:
        try:
            with anyio.fail_after(self._timeouts.connect):
                return await pool.take(fresh=fresh)
        except TimeoutError as error:
            raise NotConnected(Stage.TIME, error) from error

    def _encoded(self, request: HttpRequest, proof: Proof) -> bytes:
        headers = request.headers
        if proof.authorization is not None and self._proves:
            headers = {**headers, "Authorization": proof.authorization}
        return self._form.encoded(request.method, request.path, request.query, headers, request.body)

    def _pools_showing(self, proof: Proof) -> "_Pools":
        """A connection presents its certificate once, so new certificates need new connections.

        Streams and requests in progress keep the old ones until the certificates change again, which is
        longer than any request takes; a stream that ends then is resumed like any other.
        """
        if proof.certificates == self._shown:
            return self._pools
        # Also if they cannot be used: that is said once, and not for each request.
        self._shown = proof.certificates
        try:
            opened = self._open_pools()
        except ConfigurationProblem as problem:
            # Files that are replaced one by one were read between two of them; the next look finds all.
            _log.warning("new certificates cannot be used; the last ones still are", error=str(problem))
            return self._pools
        if self._retired:
            self._retired.close()
        self._pools, self._retired = opened, self._pools
        return self._pools

    def _open_pools(self) -> "_Pools":
        server = Origin.of(self.connection.server)
        tls = self._credentials.tls() if server.scheme == "https" else None
        return _Pools.of(Dialer(server, tls, self._credentials.tls_server_name, self._proxy))

    def _explained(self, failure: HttpFailure, request: HttpRequest, seconds: float) -> TransportError:
        name = f"{request.method} {self.server}{request.path}"
        return explained(failure, name, self.connection, self._timeouts.connect, seconds)


class _Chunks:
    """The body of a stream as it comes. A generator would have to be closed as well."""

    def __init__(self, transport: KubernetesTransport, request: HttpRequest, reply: Reply) -> None:
        self._transport = transport
        self._request = request
        self._reply = reply

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._reply.read()
        except HttpFailure as failure:
            raise self._transport._explained(failure, self._request, 0) from failure
        if not chunk:
            raise StopAsyncIteration
        return chunk


@frozen
class _Pools:
    """Separate sets of connections, so that none waits for another's.

    `urgent` ones carry Leases and reviews: leadership and probes must not wait behind slow writes of
    reconcilers. Those and `streams` are unlimited: they are few and long-lived.
    """

    requests: Pool
    urgent: Pool
    streams: Pool

    @classmethod
    def of(cls, dialer: Dialer) -> "_Pools":
        return cls(Pool(dialer.dial, _PARALLEL_REQUESTS), Pool(dialer.dial), Pool(dialer.dial))

    def of_request(self, request: HttpRequest, stream: bool) -> Pool:
        if stream:
            return self.streams
        return self.urgent if request.path.startswith(_URGENT) else self.requests

    def close(self) -> None:
        for pool in (self.requests, self.urgent, self.streams):
            pool.close()


def _form_for(connection: ClusterConnection, proxy: Proxy | None) -> RequestForm:
    origin = Origin.of(connection.server)
    headers = {
        "Host": origin.authority,
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
        "User-Agent": USER_AGENT,
    }
    prefix = urlsplit(connection.server).path.rstrip("/")
    if proxy is not None and origin.scheme == "http":
        # A proxy passes plain requests on by their whole URL; TLS goes through it in a tunnel.
        prefix = f"http://{origin.authority}{prefix}"
        if proxy.authorization is not None:
            headers["Proxy-Authorization"] = proxy.authorization
    return RequestForm(prefix, headers)
