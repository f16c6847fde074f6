"""The pages of a manager: health, metrics, and what it does, for those who may see them.

All of it runs in the pages' thread, except what is passed to `calls`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from attrs import define, field, frozen

from informers import get_logger
from informers.loopback import is_loopback
from reconcile.ops import watchdog
from reconcile.ops.debug_actions import DebugActions
from reconcile.ops.debug_pages import Answer, add_action_pages, json_text
from reconcile.ops.health_checks import Check, ping, report, run_checks
from reconcile.ops.loop_calls import LoopCalls, LoopHeld
from reconcile.ops.page_authorization import PageAuthorizer
from reconcile.ops.page_connections import PageConnectionPool

if TYPE_CHECKING:
    from aiohttp import web

HEALTH_SECONDS: Final = 0.5
"""How long health waits for the manager's loop before it is judged from outside: a probe waits a second."""
BEGIN_SECONDS: Final = 5.0
"""How long another page waits until the loop begins with it; then it is answered with 503."""
PAGE_SECONDS: Final = 30.0
"""How long a page may take once the loop has begun with it."""

# No other address of 127.0.0.0/8: sidecars such as Istio's forward from 127.0.0.6.
_THIS_MACHINE = ("127.0.0.1", "::1")
_PROXY_HEADERS = ("forwarded", "x-forwarded-", "x-real-ip", "x-envoy-", "l5d-", "via")
_EVENT_LOOP = "event-loop"
_NO_TOKEN = (
    "this page needs a bearer token that the API server accepts: kubectl create token NAME prints one\n"
)
_NO_RIGHT = "the owner of this token may not {}: grant it with nonResourceURLs of a ClusterRole\n"
_NO_VERDICT = "the API server cannot be asked who may see this page: try again when it answers\n"
_health_log = get_logger("reconcile.health")
T = TypeVar("T")


class MorePages(Protocol):
    """Pages of a wing above."""

    def add_to(self, application: "web.Application", gate: "PageGate") -> None:
        """Add the routes, whose handlers run in the pages' thread."""
        ...


class PageGate(Protocol):
    """What the handlers of `MorePages` have: who may see a page, and calls into the manager's loop."""

    calls: LoopCalls

    async def admit(self, request: "web.Request", *, local: bool, fresh: bool = False) -> None:
        """Return if the request may be answered; `fresh`: as the API server decides now.

        `local`: without a reviewer, only for requests of this machine. Raises HTTPUnauthorized,
        HTTPForbidden, HTTPServiceUnavailable, and LoopHeld.
        """
        ...

    async def may(self, request: "web.Request", verb: str, path: str) -> bool:
        """Whether who has sent an admitted request may do something else too. Raises LoopHeld."""
        ...

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work` in the manager's loop. Raises what it raises, and LoopHeld."""
        ...

    def when_lost(self, request: "web.Request", call: Callable[[], object]) -> None:
        """Have `call` called if the connection of the request is lost before it is answered."""
        ...


@frozen
class PageSources:
    """What the pages show. `metrics` takes the Accept header, and returns body and content type.

    With a `reviewer`, the API server decides who may get /metrics and /debug, from anywhere. Without one,
    /debug is for this machine, and /metrics for all, or with `metrics_local` for this machine. `held`, how
    long (s) the event loop has been held, is called from another thread; everything else in the loop. `more`
    are pages of a wing above this one.
    """

    healthz: Mapping[str, Check]
    readyz: Mapping[str, Check]
    metrics: Callable[[str], tuple[bytes, str]]
    state: Callable[[], Mapping[str, Any]]
    actions: DebugActions | None = None
    reviewer: PageAuthorizer | None = None
    metrics_local: bool = False
    held: Callable[[], float] = lambda: 0.0
    more: Sequence[MorePages] = ()


@define(eq=False)
class PageRoutes:
    sources: PageSources
    calls: LoopCalls
    _connections: PageConnectionPool | None = field(default=None, init=False)
    _last_results: dict[tuple[str, str], bool] = field(factory=dict, init=False)
    """By page and check, whether it passed last."""

    def application(self, connections: PageConnectionPool) -> "web.Application":
        """The routes as aiohttp takes them; `connections` are those that the requests come from."""
        from aiohttp import web

        self._connections = connections
        application = web.Application(middlewares=[_bounded(connections)])
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/debug/state", self._state)
        if self.sources.actions is not None:
            add_action_pages(application, self.sources.actions, self._debug)
        for page in ("healthz", "readyz"):
            for path in (f"/{page}", f"/{page}/", f"/{page}/{{name}}"):
                application.router.add_get(path, self._health_page(page))
        for pages in self.sources.more:
            pages.add_to(application, self)
        return application

    async def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self.calls.ask(work, BEGIN_SECONDS, PAGE_SECONDS)

    def when_lost(self, request: "web.Request", call: Callable[[], object]) -> None:
        """Have `call` called if the connection of the request is lost before it is answered."""
        connection = None if self._connections is None else self._connections.of(request.protocol)
        if connection is not None:
            connection.on_lost = call

    async def admit(self, request: "web.Request", *, local: bool, fresh: bool = False) -> None:
        """Return if the request may be answered; see `PageGate`."""
        from aiohttp import web

        reviewer = self.sources.reviewer
        if reviewer is None:
            if local and (reason := refusal_of(request.remote, request.host, request.headers)):
                raise web.HTTPForbidden(text=f"{reason}\n")
            return
        status = await self._status_for(reviewer, request, request.method.lower(), request.path, fresh)
        if status == 401:
            raise web.HTTPUnauthorized(text=_NO_TOKEN, headers={"WWW-Authenticate": "Bearer"})
        if status == 403:
            raise web.HTTPForbidden(text=_NO_RIGHT.format(f"{request.method.lower()} {request.path}"))
        if status != 200:
            raise web.HTTPServiceUnavailable(text=_NO_VERDICT)

    async def may(self, request: "web.Request", verb: str, path: str) -> bool:
        """Whether who has sent an admitted request may do something else too."""
        reviewer = self.sources.reviewer
        return reviewer is None or await self._status_for(reviewer, request, verb, path) == 200

    async def _status_for(
        self, reviewer: PageAuthorizer, request: "web.Request", verb: str, path: str, fresh: bool = False
    ) -> int:
        authorization = request.headers.get("Authorization", "")
        return await self.ask(lambda: reviewer.status_for(authorization, verb, path, fresh=fresh))

    async def _metrics(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        await self.admit(request, local=self.sources.metrics_local)
        accept = request.headers.get("Accept", "")

        async def text() -> tuple[bytes, str]:
            return self.sources.metrics(accept)

        body, content_type = await self.ask(text)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _state(self, request: "web.Request") -> "web.Response":
        return await self._debug(request, self.sources.state)

    async def _debug(self, request: "web.Request", answer: Answer) -> "web.Response":
        from aiohttp import web

        await self.admit(request, local=True)

        async def text() -> bytes:
            return json_text(answer())

        return web.Response(body=await self.ask(text), content_type="application/json")

    # --- health ---------------------------------------------------------------------------------------

    def _health_page(self, page: str) -> "Callable[[web.Request], Awaitable[web.Response]]":
        from aiohttp import web

        checks = {**(self.sources.healthz if page == "healthz" else self.sources.readyz)} or {"ping": ping}

        async def answer(request: web.Request) -> web.Response:
            name = request.match_info.get("name", "")
            if name and name not in checks:
                raise web.HTTPNotFound(text=f"there is no check {page}/{name}\n")
            exclude = request.query.getall("exclude", [])
            passed = await self._results(page, {name: checks[name]} if name else checks, exclude)
            health = report(page, passed, exclude=exclude, verbose="verbose" in request.query)
            return web.Response(
                status=health.status, text=health.text, headers={"X-Content-Type-Options": "nosniff"}
            )

        return answer

    async def _results(
        self, page: str, checks: Mapping[str, Check], exclude: Sequence[str]
    ) -> dict[str, bool]:
        """Which checks pass, excluded ones too; while the loop does not answer, the last results."""
        included = {name: check for name, check in checks.items() if name not in exclude}

        async def run() -> Mapping[str, bool]:
            return run_checks(page, included)

        try:
            results = await self.calls.ask(run, HEALTH_SECONDS, HEALTH_SECONDS)
        except LoopHeld:
            return self._results_while_held(page, checks)
        for name, passes in results.items():
            self._last_results[page, name] = passes
        return {name: results.get(name, True) for name in checks}

    def _results_while_held(self, page: str, checks: Mapping[str, Check]) -> dict[str, bool]:
        """Alive for as long as the loop may come back, and ready if it was ready before."""
        held = max(self.sources.held(), self.calls.held())
        alive = held <= watchdog.DEAD_SECONDS
        if not alive:
            _health_log.info(
                "a health check failed", page=page, check=_EVENT_LOOP, error=f"held for {held:.1f} s"
            )
        # A check that never ran: the process is alive, but not known to be ready.
        passed = {name: self._last_results.get((page, name), page == "healthz") for name in checks}
        return passed if alive and _EVENT_LOOP not in checks else {**passed, _EVENT_LOOP: alive}


def _bounded(connections: PageConnectionPool) -> Any:
    """Middleware that keeps a connection from being cut while a page is being made for it."""
    from aiohttp import web

    @web.middleware
    async def bounded(request: web.Request, handler: Callable[..., Awaitable[Any]]) -> Any:
        connection = connections.of(request.protocol)
        if connection is not None:
            connection.begin()
        try:
            return await handler(request)
        except LoopHeld:
            raise web.HTTPServiceUnavailable(
                text="the manager's event loop is blocked or overloaded\n"
            ) from None
        finally:
            if connection is not None:
                connection.end()

    return bounded


# --- requests of this machine ------------------------------------------------------------------------


def refusal_of(remote: str | None, host: str, headers: Iterable[str]) -> str:
    """Why a request is not from this machine, without a proxy and to a name of loopback; empty if it is."""
    if remote not in _THIS_MACHINE:
        return "this page is for this machine only: use kubectl port-forward"
    for name in headers:
        if name.lower().startswith(_PROXY_HEADERS):
            return f"this page is for this machine only, and a proxy forwarded the request: header {name}"
    # A web page whose name resolves to 127.0.0.1 (DNS rebinding) asks from here, but by its own name.
    return "" if is_local_name(host) else "this page is for this machine only: ask for 127.0.0.1"


def is_local_name(host: str) -> bool:
    """Whether a Host header names this machine: localhost, or an address of loopback."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return is_loopback(name)
