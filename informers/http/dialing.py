"""Opens connections to one server: look-up of its name, TCP, a proxy, TLS."""

import asyncio
import base64
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from attrs import field, frozen

from informers.http.connection import Connection
from informers.http.failures import HttpFailure, NotConnected, Stage

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

# A half-open connection is noticed after 30 + 3 * 10 seconds.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
# How long the next address waits for the one before it: RFC 8305.
_HAPPY_EYEBALLS_SECONDS = 0.25
_DEFAULT_PORTS = {"http": 80, "https": 443}
_OK = range(200, 300)


@frozen
class Origin:
    """Where something listens: RFC 6454."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Origin":
        """That of a URL. Raises ValueError if it has no host, or no valid port."""
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"{url} has no host")
        return cls(parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme, 80))

    @property
    def authority(self) -> str:
        """Host and port as a Host header has them, the port of its scheme left out."""
        return self.host_in_url if self.port == _DEFAULT_PORTS.get(self.scheme) else self.with_port

    @property
    def with_port(self) -> str:
        """Host and port, as CONNECT has them."""
        return f"{self.host_in_url}:{self.port}"

    @property
    def host_in_url(self) -> str:
        """The host: an IPv6 address in brackets, and a name in ASCII."""
        if ":" in self.host:
            return f"[{self.host}]"
        return self.host if self.host.isascii() else self.host.encode("idna").decode()


@frozen
class Proxy:
    """What passes requests or connections on. `authorization` is what it wants to see, if anything."""

    origin: Origin
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str) -> "Proxy":
        """That of a URL, with the user and the password in it. Raises ValueError."""
        parts = urlsplit(url)
        authorization = None
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(user.encode()).decode()}"
        return cls(Origin.of(url), authorization)


@frozen
class Dialer:
    """The way to one server. `tls` is None for plain HTTP; `server_name` what its certificate has to bear."""

    server: Origin
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: Proxy | None = None

    async def dial(self) -> Connection:
        """A new connection. Raises NotConnected."""
        if self.proxy is None:
            return await _connected(self.server, self.tls, self.server_name)
        try:
            # As in Go: the proxy's certificate is checked by the same authorities as the server's.
            tls = (self.tls or ssl.create_default_context()) if self.proxy.origin.scheme == "https" else None
            connection = await _connected(self.proxy.origin, tls, None)
        except NotConnected as failure:
            raise NotConnected(Stage.PROXY, failure.cause) from failure
        return connection if self.tls is None else await self._tunnel(self.proxy, connection, self.tls)

    async def _tunnel(self, proxy: Proxy, connection: Connection, tls: ssl.SSLContext) -> Connection:
        """TLS to the server through a connection to the proxy: RFC 9110, section 9.3.6."""
        try:
            await self._ask(proxy, connection)
            inner = Connection()
            loop = asyncio.get_running_loop()
            transport = await loop.start_tls(
                connection.transport, inner, tls, server_hostname=self.server_name or self.server.host
            )
            if transport is None:
                raise NotConnected(Stage.TLS, "the connection was closed")
            inner.connection_made(transport)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError):
                raise NotConnected(_stage_of(error), error) from error
            raise
        return inner

    async def _ask(self, proxy: Proxy, connection: Connection) -> None:
        lines = [f"CONNECT {self.server.with_port} HTTP/1.1", f"Host: {self.server.with_port}"]
        if proxy.authorization is not None:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        reply = connection.send("\r\n".join([*lines, "", ""]).encode(), without_body=True)
        try:
            await reply.until_begun()
        except HttpFailure as failure:
            raise NotConnected(Stage.PROXY, failure) from failure
        if reply.status not in _OK:
            raise NotConnected(Stage.REFUSED_BY_PROXY, f"{reply.status} {reply.reason}".strip())


async def _connected(origin: Origin, tls: ssl.SSLContext | None, server_name: str | None) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        addresses = await _addresses(origin)
    except (OSError, UnicodeError) as error:
        raise NotConnected(Stage.LOOK_UP, error) from error
    try:
        connected = await _socket_to(addresses)
    except OSError as error:
        raise NotConnected(Stage.CONNECT, error) from error
    connection = Connection()
    try:
        name = None if tls is None else server_name or origin.host
        await loop.create_connection(lambda: connection, sock=connected, ssl=tls, server_hostname=name)
    except BaseException as error:
        # After a handshake asyncio would say goodbye for up to 30 seconds, on a socket that is closed here.
        connection.close()
        connected.close()
        if isinstance(error, OSError):
            raise NotConnected(_stage_of(error), error) from error
        raise
    return connection


def _stage_of(error: OSError) -> Stage:
    return Stage.TLS if isinstance(error, ssl.SSLError) else Stage.CONNECT


async def _addresses(origin: Origin) -> "Sequence[AddrInfoType]":
    """What `getaddrinfo` says; a thread is needed for names alone."""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    try:
        return socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, flags=flags)
    except OSError:
        loop = asyncio.get_running_loop()
        # Without IPv6 here, its addresses would only hide why those of IPv4 fail.
        wanted = socket.AI_ADDRCONFIG
        return await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, flags=wanted)


async def _socket_to(addresses: "Sequence[AddrInfoType]") -> socket.socket:
    if len(addresses) == 1:
        return await _connect_to(addresses[0])
    import aiohappyeyeballs

    return await aiohappyeyeballs.start_connection(
        addresses, happy_eyeballs_delay=_HAPPY_EYEBALLS_SECONDS, socket_factory=_socket_for
    )


async def _connect_to(address: "AddrInfoType") -> socket.socket:
    made = _socket_for(address)
    try:
        await asyncio.get_running_loop().sock_connect(made, address[4])
    except BaseException:
        made.close()
        raise
    return made


def _socket_for(address: "AddrInfoType") -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
