"""A TCP proxy that can be cut or stand still; no end of a connection is told of that."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketStream
from attrs import define, field


@define
class TcpProxy:
    """Passes bytes on between a port of its own and `target`.

    While it is `cut`, they are lost. While it stands still, they wait: as with a network that is down for a
    moment, since TCP sends again what has not arrived.
    """

    target: int
    port: int = 0
    cut: bool = False
    dropped: int = field(default=0, init=False)
    _passing: anyio.Event = field(factory=anyio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._passing.set()

    def stand_still(self) -> None:
        self._passing = anyio.Event()

    def go_on(self) -> None:
        self._passing.set()

    async def _connect(self, client: SocketStream) -> None:
        server = await anyio.connect_tcp("127.0.0.1", self.target)
        async with client, server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass, client, server)
            tasks.start_soon(self._pass, server, client)

    async def _pass(self, source: ByteReceiveStream, sink: ByteSendStream) -> None:
        try:
            async for part in source:
                await self._passing.wait()
                if self.cut:
                    self.dropped += len(part)
                else:
                    await sink.send(part)
            if not self.cut:
                await sink.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await sink.aclose()


@asynccontextmanager
async def proxying(target: int) -> AsyncIterator[TcpProxy]:
    """Serve a proxy to a port of this machine until the context is left."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    proxy = TcpProxy(target, listener.extra(anyio.abc.SocketAttribute.local_port))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy._connect)
        yield proxy
        tasks.cancel_scope.cancel()
