"""Simulated pods that answer requests over real sockets, each on a loopback address of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field

from reconcile.kinds import Pod

if TYPE_CHECKING:
    from aiohttp import web

UP = "# TYPE up gauge\nup 1\n"
_NET = 77
_IN_A_NET = 250


@define
class PodPages:
    """Pods answer `/metrics` on `port` of their address while they run, and `/healthz` with `ok`.

    `metrics` returns the text of a pod's page, or None for 503, as from a failing process; by default it is
    `up 1`. A container port named `metrics` takes precedence over `port`. This needs real time, and a machine
    on which all of 127.0.0.0/8 is loopback, as on Linux.
    """

    metrics: Callable[[Pod], str | None] = lambda pod: UP
    port: int = 9100
    _addresses: dict[str, str] = field(factory=dict, init=False, repr=False)
    _runners: "dict[str, web.AppRunner]" = field(factory=dict, init=False, repr=False)
    _given: int = field(default=0, init=False)

    async def begin(self, pod: Pod) -> str:
        """Answer for a pod; returns its address. Raises OSError if that is taken."""
        if pod.uid in self._addresses:
            return self._addresses[pod.uid]
        from aiohttp import web

        async def metrics(_: web.Request) -> web.Response:
            text = self.metrics(pod)
            return web.Response(text="failing\n", status=503) if text is None else web.Response(text=text)

        async def health(_: web.Request) -> web.Response:
            return web.Response(text="ok")

        app = web.Application()
        app.router.add_get("/metrics", metrics)
        app.router.add_get("/healthz", health)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self._runners[pod.uid] = runner
        address = self._address()
        await web.TCPSite(runner, address, self.port_of(pod)).start()
        self._addresses[pod.uid] = address
        return address

    async def end(self, uid: str) -> None:
        """Stop answering for the pod of that uid."""
        self._addresses.pop(uid, None)
        runner = self._runners.pop(uid, None)
        if runner is not None:
            await runner.cleanup()

    async def close(self) -> None:
        """Stop answering for all pods."""
        for uid in tuple(self._runners):
            await self.end(uid)

    def port_of(self, pod: Pod) -> int:
        """The port on which a pod answers."""
        ports = [port for one in pod.spec.containers for port in one.ports]
        named = [port.container_port for port in ports if port.name == "metrics"]
        return named[0] if named else self.port

    def _address(self) -> str:
        self._given += 1
        rest, last = divmod(self._given, _IN_A_NET)
        second, third = divmod(rest, _IN_A_NET)
        return f"127.{_NET + second}.{third}.{last + 1}"
