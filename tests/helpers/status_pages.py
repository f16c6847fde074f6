"""A server of the status page that tests fill by hand: the page's own files, and events as a test wants them.

It says what `docs/how-to/watch-an-operator.md` describes, in the form that a manager's `/status/stream` has.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from attrs import define, field

PAGE: Final = Path(__file__).parents[2] / "reconcile" / "status" / "page"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
HEALTHS: Final = ("failing", "deleting", "progressing", "waiting", "healthy")
NOW: Final = 1_764_000_000.0
BATCH: Final = 500

Row = list[Any]
Event = tuple[str, Mapping[str, Any]]


def row(number: int, key: str, health: str = "healthy", **facts: Any) -> Row:
    """A row of the stream; `facts` are its cells by name, times in seconds of the manager's clock."""
    cells = {
        "controller": 0,
        "reason": "",
        "state": "resting",
        "sentence": "",
        "created": NOW - 86_400,
        "ended": NOW - 30,
        "failures": 0,
        "next_at": None,
        "conditions": ["Ready=True"] if health == "healthy" else ["Ready=False"],
    } | facts
    names = ("reason", "state", "sentence", "created", "ended", "failures", "next_at", "conditions")
    return [number, cells["controller"], key, HEALTHS.index(health), *(cells[name] for name in names)]


def controller_facts(name: str = "sites", **facts: Any) -> dict[str, Any]:
    """One of the controllers of an overview."""
    return {
        "name": name,
        "kind": "Site",
        "resource": "sites.example.com",
        "cluster": "",
        "paused": False,
        "objects": {"healthy": 1},
        "queue": {"ready": 0, "later": 0, "backoff": 0, "oldest": 0.0},
        "workers": 4,
        "running": 0,
        "runs_last_minute": 0,
        "failures_last_minute": 0,
        "storms": [],
        "behind": 0.0,
    } | facts


def overview(*controllers: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    informer = {
        "resource": "sites.example.com",
        "objects": 1,
        "bytes": 1200,
        "synced": True,
        "silence": 0.4,
        "restarts": 0,
        "failures": 0,
    }
    cluster = {
        "name": "",
        "reachable": True,
        "synced": True,
        "down_seconds": None,
        "informers": [informer],
    }
    return {
        "now": NOW,
        "leading": True,
        "leader": "pod-abc",
        "ready": True,
        "controllers": list(controllers) or [controller_facts()],
        "clusters": [cluster],
        "shards": None,
        "webhooks": None,
    } | facts


def life(key: str = "default/shop", **facts: Any) -> dict[str, Any]:
    """One object's life; without runs, conditions and children unless `facts` have some."""
    return {
        "version": 1,
        "now": NOW,
        "controller": "sites",
        "kind": "Site",
        "resource": "sites.example.com",
        "cluster": "",
        "key": key,
        "uid": "u-1",
        "health": "healthy",
        "reason": "",
        "conditions": [],
        "created": NOW - 86_400,
        "generation": 1,
        "observed": 1,
        "why": {"state": "resting", "sentence": "", "next_at": None},
        "runs": [],
        "tree": {
            "kind": "Site",
            "key": key,
            "uid": "u-1",
            "health": "healthy",
            "desired": "unknown",
            "fields": [],
            "children": [],
            "more": 0,
        },
    } | facts


@define(eq=False)
class ScriptedManager:
    """What the page is told. Set `rows`, `overview` and `lives` before it connects, then `send` changes."""

    rows: Sequence[Row] = ()
    overview: Mapping[str, Any] = field(factory=overview)
    lives: dict[str, Mapping[str, Any]] = field(factory=dict)
    """By key."""
    name: str = "sites-operator"
    actions: bool = True
    token: str = ""
    """The one that is asked for; empty: none."""
    refuses: tuple[int, str] | None = None
    """Status and words with which a stream is refused."""
    on_action: Callable[[str, str, str], str] = lambda action, kind, key: ""
    """Called for each action; returns why it is refused, if it is."""
    url: str = field(default="", init=False)
    acted: list[tuple[str, str, str]] = field(factory=list, init=False)
    asked: list[str] = field(factory=list, init=False)
    """The paths of all requests."""
    _streams: set["asyncio.Queue[Event | None]"] = field(factory=set, init=False)

    @property
    def streams(self) -> int:
        return len(self._streams)

    def send(self, name: str, data: Mapping[str, Any]) -> None:
        for stream in self._streams:
            stream.put_nowait((name, data))

    def change(self, *rows: Row, gone: Sequence[int] = ()) -> None:
        self.send("rows", {"first": False, "last": False, "rows": list(rows), "gone": list(gone)})

    def end_streams(self) -> None:
        for stream in self._streams:
            stream.put_nowait(None)

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._noted])
        application.router.add_get("/status/", self._file)
        application.router.add_get("/status/assets/{name}", self._file)
        application.router.add_get("/status/stream", self._stream)
        application.router.add_get("/status/object", self._object)
        application.router.add_post("/debug/{action}", self._act)
        return application

    @web.middleware
    async def _noted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(request.path)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = PAGE / request.match_info.get("name", "index.html")
        return web.Response(
            text=file.read_text(),
            content_type=TYPES[file.suffix],
            charset="utf-8",
            headers={**HEADERS, "Cache-Control": "no-cache"},
        )

    def _admitted(self, request: web.Request) -> bool:
        return not self.token or request.headers.get("Authorization") == f"Bearer {self.token}"

    async def _object(self, request: web.Request) -> web.StreamResponse:
        if not self._admitted(request):
            return web.Response(status=401, headers=HEADERS)
        key = request.query["key"]
        if key not in self.lives:
            return web.Response(status=404, text=f"there is no Site {key} in the cache of this manager\n")
        return web.json_response(self.lives[key], headers={**HEADERS, "Cache-Control": "no-store"})

    async def _act(self, request: web.Request) -> web.StreamResponse:
        if not self._admitted(request):
            return web.Response(status=401, headers=HEADERS)
        if "X-Reconcile" not in request.headers:
            return web.Response(status=403, text="a change needs the header X-Reconcile\n")
        acted = (request.match_info["action"], request.query["controller"], request.query["key"])
        self.acted.append(acted)
        refusal = self.on_action(*acted)
        return web.Response(status=404, text=refusal) if refusal else web.json_response({})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self.refuses is not None:
            return web.Response(status=self.refuses[0], text=self.refuses[1], headers=HEADERS)
        if not self._admitted(request):
            return web.Response(status=401, headers=HEADERS)
        answer = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await answer.prepare(request)
        stream: asyncio.Queue[Event | None] = asyncio.Queue()
        self._streams.add(stream)
        try:
            for event in self._first_events():
                await _write(answer, event)
            while (event := await stream.get()) is not None:
                await _write(answer, event)
        except ConnectionError:
            pass
        finally:
            self._streams.discard(stream)
        return answer

    def _first_events(self) -> Sequence[Event]:
        names = [each["name"] for each in self.overview["controllers"]]
        hello = {
            "version": "0.1.0",
            "name": self.name,
            "identity": "pod-abc",
            "now": NOW,
            "controllers": names,
            "actions": self.actions,
        }
        starts = range(0, max(1, len(self.rows)), BATCH)
        batches: list[Event] = [
            (
                "rows",
                {
                    "first": start == 0,
                    "last": start + BATCH >= len(self.rows),
                    "rows": list(self.rows[start : start + BATCH]),
                    "gone": [],
                },
            )
            for start in starts
        ]
        return [("hello", hello), ("overview", self.overview), *batches]


async def _write(answer: web.StreamResponse, event: Event) -> None:
    name, data = event
    await answer.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())


@asynccontextmanager
async def serving(manager: ScriptedManager, port: int = 0) -> Any:
    """Serve the page on 127.0.0.1; `manager.url` is its address."""
    runner = web.AppRunner(manager.application(), shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        manager.url = f"http://127.0.0.1:{runner.addresses[0][1]}/status/"
        yield manager
    finally:
        manager.end_streams()
        await runner.cleanup()
