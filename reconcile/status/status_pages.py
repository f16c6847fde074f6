"""The pages under /status: the page itself, its stream, and the life of one object.

All of it runs in the pages' thread, except what is passed to the gate's `ask`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from attrs import Factory, define, field

from reconcile.ops.loop_calls import LoopHeld
from reconcile.ops.page_routes import PageGate
from reconcile.status.page_assets import INDEX, Asset, page_assets
from reconcile.status.status_board import StatusBoard
from reconcile.status.status_stream import Viewer

if TYPE_CHECKING:
    from aiohttp import web

STREAMS: Final = 8
"""At once; each costs the manager a few thousandths of a core while things change."""
REVIEW_SECONDS: Final = 60.0
"""Between two reviews of whether the viewer of a stream may still see it."""
UNREVIEWED_SECONDS: Final = 300.0
"""How long a stream goes on while the API server cannot decide: then the page is needed most."""
WRITE_SECONDS: Final = 30.0
"""Within which a client has to read what it was sent."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer, errors included."""

Life = Callable[[str, str], Mapping[str, Any]]
"""The life of the object of a controller and key. Raises LookupError, and ValueError for a bad key."""

Verdict = Literal["allowed", "refused", "unknown"]

_read_assets = cache(page_assets)


@define(eq=False)
class StatusPages:
    board: StatusBoard
    life: Life
    _streams: "set[asyncio.Task[Any]]" = field(factory=set, init=False)
    """Of the pages' thread, as everything here that is not asked of the board."""

    def add_to(self, application: "web.Application", gate: PageGate) -> None:
        """Add the routes; streams end at once when the application shuts down."""
        router = application.router
        for path in ("/", "/status"):
            router.add_get(path, _redirect)
        router.add_get("/status/", _index)
        router.add_get("/status/assets/{name}", _asset)
        router.add_get("/status/stream", partial(self._stream, gate), allow_head=False)
        router.add_get("/status/object", partial(self._object, gate), allow_head=False)
        application.on_response_prepare.append(_add_headers)
        application.on_shutdown.append(self._end_streams)

    async def _end_streams(self, application: "web.Application") -> None:
        for stream in self._streams:
            stream.cancel()

    # --- one object -------------------------------------------------------------------------------

    async def _object(self, gate: PageGate, request: "web.Request") -> "web.Response":
        from aiohttp import web

        _refuse_other_sites(request)
        await gate.admit(request, local=True)
        controller, key = request.query.get("controller", ""), request.query.get("key", "")

        async def text() -> bytes:
            return msgspec.json.encode(self.life(controller, key))

        try:
            return web.Response(body=await gate.ask(text), content_type="application/json")
        except LookupError as error:
            raise web.HTTPNotFound(text=f"{error.args[0]}\n") from None
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None

    # --- the stream -------------------------------------------------------------------------------

    async def _stream(self, gate: PageGate, request: "web.Request") -> "web.StreamResponse":
        from aiohttp import web

        _refuse_other_sites(request)
        await gate.admit(request, local=True)
        task = asyncio.current_task()
        assert task is not None
        if len(self._streams) >= STREAMS:
            text = f"{STREAMS} streams of this page are open already: close one of them\n"
            raise web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "5"})
        self._streams.add(task)
        # Else a page that is loaded anew takes up a second stream until the next write.
        gate.when_lost(request, task.cancel)
        try:
            viewer = Viewer(self.board, actions=await gate.may(request, "post", "/debug/trigger"))
            try:
                return await self._serve(gate, request, viewer)
            finally:
                # From its own loop. It is closed only where nothing is left to be undone.
                with contextlib.suppress(RuntimeError):
                    gate.calls.loop.call_soon_threadsafe(viewer.leave)
        finally:
            self._streams.discard(task)

    async def _serve(self, gate: PageGate, request: "web.Request", viewer: Viewer) -> "web.StreamResponse":
        from aiohttp import web

        loop = asyncio.get_running_loop()
        # Before the answer begins, so that a manager that does not respond is a 503.
        chunk = await gate.ask(viewer.next)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        response.headers["X-Accel-Buffering"] = "no"
        review = _Review(gate, request, loop.time())
        # A page does not notice a gap in the rows: after an error the stream ends, and the page asks anew.
        # A reader may have left before the answer begins.
        with contextlib.closing(review), contextlib.suppress(TimeoutError, ConnectionError, LoopHeld):
            await response.prepare(request)
            while chunk and review.allows(loop.time()):
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(chunk)
                chunk = await gate.ask(viewer.next)
            await response.write_eof()
        return response


@define(eq=False)
class _Review:
    """Whether the viewer of a stream may still see it.

    It is asked beside the stream, which goes on meanwhile: when the API server does not answer, it is needed.
    """

    gate: PageGate
    request: "web.Request"
    _allowed: float
    """When (s of the loop) the last question was asked that the API server has answered with yes."""
    _asked: float = field(default=Factory(lambda self: self._allowed, takes_self=True), init=False)
    _task: "asyncio.Task[Verdict] | None" = field(default=None, init=False)

    def allows(self, now: float) -> bool:
        if self._task is not None and self._task.done():
            verdict, self._task = self._task.result(), None
            if verdict == "refused":
                return False
            if verdict == "allowed":
                self._allowed = self._asked
        if self._task is None and now - self._asked >= REVIEW_SECONDS:
            self._asked = now
            self._task = asyncio.get_running_loop().create_task(self._ask())
        return now - self._allowed < UNREVIEWED_SECONDS

    async def _ask(self) -> "Verdict":
        from aiohttp import web

        try:
            await self.gate.admit(self.request, local=True, fresh=True)
        except (web.HTTPUnauthorized, web.HTTPForbidden):
            return "refused"
        except (web.HTTPServiceUnavailable, LoopHeld):
            return "unknown"
        return "allowed"

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _refuse_other_sites(request: "web.Request") -> None:
    """Other sites cannot read an answer, but could take up all streams."""
    from aiohttp import web

    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise web.HTTPForbidden(text="this request is of another site: expected Sec-Fetch-Site same-origin\n")


# --- the page itself -------------------------------------------------------------------------------------


async def _redirect(request: "web.Request") -> "web.Response":
    from aiohttp import web

    # Relative: the page may be behind a prefix that is not known here.
    return web.Response(status=302, headers={"Location": "status/"})


async def _index(request: "web.Request") -> "web.Response":
    return _served(request, INDEX)


async def _asset(request: "web.Request") -> "web.Response":
    return _served(request, request.match_info["name"])


def _served(request: "web.Request", name: str) -> "web.Response":
    from aiohttp import web

    asset: Asset | None = _read_assets().get(name)
    if asset is None:
        raise web.HTTPNotFound(text="the page has no such file\n")
    headers = {"Cache-Control": "no-cache", "ETag": asset.tag}
    if request.headers.get("If-None-Match") == asset.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=asset.body, headers={**headers, "Content-Type": asset.content_type})


async def _add_headers(request: "web.Request", response: "web.StreamResponse") -> None:
    if request.path == "/" or request.path.startswith("/status"):
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
