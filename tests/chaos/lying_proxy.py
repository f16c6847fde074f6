"""A proxy that ends TLS and lies: it acts on single requests, on both sides of their execution."""

import base64
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import anyio
import yaml
from aiohttp import web
from anyio.abc import TaskGroup
from attrs import define, field
from multidict import CIMultiDict
from yarl import URL

from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.embedded.listener.certificates import make_certificate
from tests.chaos.proxy_faults import (
    AT_A_LINE,
    EXPIRED_EVENT,
    LAG,
    ProxiedRequest,
    ProxyFault,
    WatchFault,
    choose,
    choose_for_watch,
    silence,
)
from tests.helpers.tasks import beside
from tests.processes.recording_server import TAG

LATE = "delayed"
"""The tag of what the proxy sent on later than it got it, on purpose."""

_HOPS = {"host", "connection", "content-length", "transfer-encoding", "keep-alive"}
_CLIENT_PATIENCE = 30.0
"""Seconds after which even a stalled answer is cut, so that no connection is kept for ever."""


@define(eq=False)
class LyingProxy:
    """Passes the requests of one replica on to a server, and tampers with some of them.

    `faults` counts the requests that were tampered with, by name.
    """

    session: aiohttp.ClientSession
    target: str
    chance: random.Random
    tasks: TaskGroup
    honest: bool = False
    """Whether it passes everything on as it is."""
    cut: bool = False
    """Whether it is as if the cable had been pulled: nothing is answered, connections break."""
    faults: Counter[str] = field(factory=Counter, init=False)
    late: int = field(default=0, init=False)
    """Requests that are still to be carried out, later than their client waited."""
    _lasts: dict[int, web.BaseRequest] = field(factory=dict, init=False)
    errors: list[str] = field(factory=list, init=False)
    """What went wrong in the proxy itself, which must be nothing."""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, truly or not."""
        try:
            return await self._answer(request)
        except ConnectionError:
            return self._break_off(request)  # the client has gone
        except Exception as error:
            self.errors.append(f"{request.method} {request.path}: {error!r}")
            raise

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if self.cut:
            return self._break_off(request)
        watch = request.query.get("watch") == "true"
        fault = None
        if not self.honest:
            generates = request.method == "POST" and b'"generateName"' in body
            asked = ProxiedRequest(request.method, "/leases" in request.path, watch, generates)
            fault = choose(self.chance, asked)
        if fault is not None:
            self.faults[f"{'watch: ' if watch else ''}{fault.name}"] += 1
            return await self._tamper(request, body, fault)
        if watch:
            return await self._watch(request)
        status, headers, answer = await self._send_on(request, body)
        return web.Response(status=status, headers=headers, body=answer)

    def heal(self) -> None:
        """Be honest from now on, and break off what was tampered with and lasts."""
        self.honest = True
        self.break_all()
        self.cut = False

    def break_all(self) -> None:
        """Break off everything that lasts, and let nothing pass until `cut` is taken back."""
        self.cut = True
        for request in list(self._lasts.values()):
            self._break_off(request)

    # --- single requests --------------------------------------------------------------------------

    async def _tamper(self, request: web.BaseRequest, body: bytes, fault: ProxyFault) -> web.StreamResponse:
        delay = self.chance.uniform(*fault.delay)
        answer = (fault.status, CIMultiDict(fault.headers), fault.body)
        if fault.execution == "before":
            await anyio.sleep(delay)
            true = await self._send_on(request, body, LATE if delay else "")
            answer = answer if fault.answer == "made up" else true
        elif fault.execution == "after the client gave up":
            self.late += 1
            self.tasks.start_soon(self._send_late, request, body, delay)
        return await self._answer_as(request, fault, *answer)

    async def _answer_as(
        self, request: web.BaseRequest, fault: ProxyFault, status: int, headers: CIMultiDict[str], body: bytes
    ) -> web.StreamResponse:
        match fault.answer:
            case "cut":
                return self._break_off(request)
            case "none":
                return await self._stall(request, _CLIENT_PATIENCE)
            case "truncated" | "slow":
                return await self._send_in_parts(request, status, headers, body, fault.answer == "slow")
        headers.setdefault("content-type", "application/json")
        return web.Response(status=status, headers=headers, body=body)

    async def _send_in_parts(
        self, request: web.BaseRequest, status: int, headers: CIMultiDict[str], body: bytes, slow: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = len(body)
        half = len(body) // 2
        try:
            await response.prepare(request)
            await response.write(body[:half])
            if not slow:
                self._close(request)
                return response
            await anyio.sleep(self.chance.uniform(0.2, 3.0))
            await response.write(body[half:])
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone
        return response

    async def _send_late(self, request: web.BaseRequest, body: bytes, delay: float) -> None:
        try:
            await anyio.sleep(delay)
            await self._send_on(request, body, LATE)
        finally:
            self.late -= 1

    async def _send_on(
        self, request: web.BaseRequest, body: bytes, tag: str = ""
    ) -> tuple[int, CIMultiDict[str], bytes]:
        async with self._request(request, body, tag) as reply:
            return reply.status, _passed(reply.headers), await reply.read()

    @asynccontextmanager
    async def _request(
        self, request: web.BaseRequest, body: bytes, tag: str = ""
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = _passed(request.headers)
        if tag:
            headers[TAG] = tag
        url = URL(self.target + request.raw_path, encoded=True)
        async with self.session.request(request.method, url, headers=headers, data=body) as reply:
            yield reply

    # --- what lasts -------------------------------------------------------------------------------

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        chosen = None if self.honest else choose_for_watch(self.chance)
        async with self._request(request, b"") as reply, self._lasting(request):
            response = web.StreamResponse(status=reply.status, headers=_passed(reply.headers))
            lines = _Lines(reply.content)
            try:
                await response.prepare(request)
                if chosen is not None and await self._pass_until_befallen(request, response, lines, *chosen):
                    return response
                while line := await lines.next():
                    await response.write(line)
                await response.write_eof()
            except (ConnectionError, aiohttp.ClientError):
                self._break_off(request)
            return response

    async def _pass_until_befallen(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        lines: "_Lines",
        what: WatchFault,
        after: float,
    ) -> bool:
        """Pass lines on until the fault has happened; whether the watch is over then."""
        begins = anyio.current_time() + after
        while True:
            line = await lines.next(None if what in AT_A_LINE else begins)
            if line == b"":
                await response.write_eof()
                return True
            if what == "lag" and (line is None or anyio.current_time() >= begins) and not self.honest:
                self.faults["watch: lag"] += 1
                await self._pass_late(response, lines, line)
                return True
            if line is None or anyio.current_time() >= begins:
                return await self._befall(request, response, what, line or b"")
            await response.write(line)

    async def _pass_late(self, response: web.StreamResponse, lines: "_Lines", line: bytes | None) -> None:
        """Pass lines on in their order, each as late as all others."""
        lag = self.chance.uniform(*LAG)
        waiting, due = anyio.create_memory_object_stream[tuple[float, bytes]](100_000)

        async def read() -> None:
            found = line or await lines.next()
            with waiting, suppress(aiohttp.ClientError):
                while found:
                    waiting.send_nowait((anyio.current_time() + lag, found))
                    found = await lines.next()

        async with beside(read):
            with due, suppress(ConnectionError):
                async for at, found in due:
                    await anyio.sleep_until(at)
                    await response.write(found)
                await response.write_eof()

    async def _befall(
        self, request: web.BaseRequest, response: web.StreamResponse, what: WatchFault, line: bytes
    ) -> bool:
        """Do to a watch what was chosen for it; whether it is over then."""
        if self.honest:
            await response.write(line)
            return False
        self.faults[f"watch: {what}"] += 1
        match what:
            case "twice":
                await response.write(line + line)
                return False
            case "silence":
                await self._stall(request, silence(self.chance))
            case "half line":
                await response.write(line[: len(line) // 2])
                self._close(request)
            case "garbage line":
                await response.write(b'{"type": "ADDED", "object": {"metad\n')
                await response.write(line)
                return False
            case "410 event":
                await response.write(EXPIRED_EVENT)
                await response.write_eof()
            case "cut":
                self._break_off(request)
        return True

    async def _stall(self, request: web.BaseRequest, seconds: float) -> web.StreamResponse:
        """Say nothing until the client has gone, that time is over, or the proxy is healed."""
        with anyio.move_on_after(seconds):
            async with self._lasting(request):
                while request.transport is not None and not request.transport.is_closing():
                    await anyio.sleep(0.05)
        return self._break_off(request)

    @asynccontextmanager
    async def _lasting(self, request: web.BaseRequest) -> AsyncIterator[None]:
        self._lasts[id(request)] = request
        try:
            yield
        finally:
            self._lasts.pop(id(request), None)  # a watch that is stalled lasts twice

    def _break_off(self, request: web.BaseRequest) -> web.StreamResponse:
        """Reset the connection; what is answered then reaches no one."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    def _close(self, request: web.BaseRequest) -> None:
        if request.transport is not None:
            request.transport.close()


@define
class _Lines:
    """The lines of a stream; giving up on one loses nothing of it."""

    content: aiohttp.StreamReader
    _read: bytes = field(default=b"", init=False)

    async def next(self, until: float | None = None) -> bytes | None:
        """The next line, empty at the end; None if that time (the loop's) comes before it."""
        while b"\n" not in self._read:
            with anyio.CancelScope(deadline=float("inf") if until is None else until) as scope:
                chunk = await self.content.readany()
            if scope.cancelled_caught:
                return None
            if not chunk:
                return b""
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return line + b"\n"


def _passed(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOPS)


def _authority(kubeconfig: Path) -> str:
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    return base64.b64decode(cluster["certificate-authority-data"]).decode()


@asynccontextmanager
async def lying(folder: Path, user: str, port: int, chance: random.Random) -> AsyncIterator[LyingProxy]:
    """Serve a proxy over HTTPS for a user of the server at `port`, until the context is left.

    Writes the kubeconfig that leads through it: `folder / f"{user}-through"`.
    """
    certificate = make_certificate()
    context = ssl.create_default_context(cadata=_authority(folder / user))
    connector = aiohttp.TCPConnector(limit=0, ssl=context)
    async with (
        aiohttp.ClientSession(
            connector=connector, auto_decompress=False, read_bufsize=1 << 22, timeout=aiohttp.ClientTimeout()
        ) as session,
        anyio.create_task_group() as tasks,
    ):
        proxy = LyingProxy(session, f"https://127.0.0.1:{port}", chance, tasks)
        runner = web.ServerRunner(web.Server(proxy.answer, access_log=None), shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate.context)
        await site.start()
        write_kubeconfig(
            folder / f"{user}-through", f"https://127.0.0.1:{site.port}", certificate.ca_pem, user
        )
        try:
            yield proxy
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await runner.cleanup()
