"""Whether an API server can be reached, and how work resumes after an outage.

    up        requests are sent as they come
    doubted   a request found no server; a probe finds out whether that was a single failure
    down      a probe found no server either; probes go on, and whatever can wait does

An answer below 500, or to a probe, ends doubt and outage. For a second after an outage requests are spread
out, so that a server that has just started does not get all waiting requests at once.
"""

from collections.abc import Callable, Hashable
from contextvars import Context, copy_context
from typing import TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup
from attrs import define, field, frozen

from informers.api_errors import ApiError, TransportError, error_from_response, is_unreachable
from informers.broadcast import Broadcast
from informers.clock import Clock
from informers.logs import get_logger
from informers.transport import HttpRequest, PassingTransport, Response, Transport
from workqueue import Backoff

FIRST_PROBE = 0.2
"""Seconds from the first failure to the first probe: an ordinary retry is often answered sooner."""
PROBES = Backoff(base=0.1, limit=0.8, jitter=0.25)
"""Intervals between probes: at most 1 s, so that the end of an outage is noticed within that time."""
PROBE_SECONDS = 3.0
"""Seconds after which an unanswered probe has failed."""
PROBE_INTERVAL = 1.0
"""Seconds between an answered probe and the next, so single failures of a running server cost little."""
UNREADY_SECONDS = 10.0
"""Seconds after which a server is used that answers but reports that it is not ready."""
CALM_SECONDS = 30.0
"""Seconds after an outage within which a new one counts as flapping: probes stay rare, nothing is logged."""
RAMP_SECONDS = 1.0
RAMP_RATE = 80.0
"""Requests a second in the first `RAMP_SECONDS`; the promise is 100, and the Lease is not paced."""

_READY = "/readyz"
_log = get_logger("informers")

Wake: TypeAlias = Callable[[], None]


@frozen
class ReachStatus:
    """Whether a server can be reached, for how many seconds it cannot (0: it can), and what failed.

    `outages` counts those that have begun.
    """

    reachable: bool = True
    down_seconds: float = 0.0
    outages: int = 0
    error: str = ""


@define(eq=False)
class Reachability:
    """What is known of the connection to one server. `transport` sends probes, in the task group of `start`.

    `path` gives the path of a followed collection, so that probes ask what requests really need; empty if
    none is followed.
    """

    transport: Transport
    clock: Clock
    path: Callable[[], str] = str
    log: structlog.stdlib.BoundLogger = _log
    down: bool = field(default=False, init=False)
    """Whether the server is known to be unreachable."""
    troubled: bool = field(default=False, init=False)
    """Whether it is down or doubted: a plain attribute, as it is read for every answer."""
    ramping: bool = field(default=False, init=False)
    """Whether requests must wait for their `turn`."""
    down_since: float = field(default=float("-inf"), init=False)
    """When the last outage began (s, of the event loop)."""
    _outages: int = field(default=0, init=False)
    _error: str = field(default="", init=False)
    _loud: bool = field(default=True, init=False)
    _level: int = field(default=0, init=False)
    _up_since: float = field(default=float("-inf"), init=False)
    _probe_answered: float = field(default=float("-inf"), init=False)
    _unready_since: float | None = field(default=None, init=False)
    _ramp_until: float = field(default=float("-inf"), init=False)
    _next_turn: float = field(default=float("-inf"), init=False)
    _group: TaskGroup | None = field(default=None, init=False)
    _context: Context = field(factory=copy_context, init=False)
    _probing: bool = field(default=False, init=False)
    _up: Broadcast = field(factory=Broadcast, init=False)
    _once: dict[Hashable, Wake] = field(factory=dict, init=False)
    _always: dict[Wake, None] = field(factory=dict, init=False)

    # --- life -----------------------------------------------------------------------------------

    def start(self, group: TaskGroup) -> None:
        """Probe in that group when necessary. Before this, and after `end`, nothing is doubted."""
        self._group = group
        self._context = copy_context()

    def end(self) -> None:
        """Report that the group of `start` has ended: nothing is known any more, and `wait_up` returns."""
        self._group = None
        self._probing = self.troubled = self.down = self.ramping = False
        self._once.clear()
        self._up.notify()

    # --- what becomes of requests -----------------------------------------------------------------

    def failed(self, error: Exception) -> None:
        """Report that a request, or a stream, found no server (see `is_unreachable`)."""
        if self._group is None:
            return
        self.troubled = True
        if not self._probing:
            self._probing = True
            # Not in the context of the failed request: its last check would hold back probes too.
            self._context.run(self._group.start_soon, self._find_out)

    def answered(self) -> None:
        """Report that the server answered a request."""
        self.troubled = False
        if not self.down:
            self._once.clear()
            return
        now = anyio.current_time()
        self.down, self._unready_since, self._error = False, None, ""
        self.ramping, self._next_turn, self._ramp_until = True, now, now + RAMP_SECONDS
        self._up_since = now
        if self._loud:
            self.log.warning(
                "the API server answers again",
                server=self.transport.server,
                seconds=round(now - self.down_since, 1),
            )
        # A worker that begins here must not inherit what belongs to the request that was answered.
        self._context.copy().run(self._go_up)

    def _go_up(self) -> None:
        # Informers first: the earlier the caches are up to date, the less is done twice.
        for wake in list(self._always):
            wake()
        once, self._once = self._once, {}
        for wake in once.values():
            wake()
        self._up.notify()

    # --- waiting --------------------------------------------------------------------------------

    async def wait_up(self) -> None:
        """Wait while the server is known to be down."""
        await self._up.wait_until(lambda: not self.down)

    def when_up(self, name: Hashable, wake: Wake) -> None:
        """Have `wake` called once after the present trouble, if that proves to be an outage."""
        if self.troubled:
            self._once[name] = wake

    def add_listener(self, wake: Wake) -> None:
        """Have `wake` called at the end of each outage."""
        self._always[wake] = None

    def remove_listener(self, wake: Wake) -> None:
        """Undo `add_listener`."""
        self._always.pop(wake, None)

    async def turn(self) -> None:
        """Wait for a turn to send a request, if an outage has just ended."""
        now = anyio.current_time()
        if now >= self._ramp_until:
            self.ramping = False
            return
        turn = max(self._next_turn, now)
        self._next_turn = turn + 1 / RAMP_RATE
        await anyio.sleep(min(turn, self._ramp_until) - now)

    # --- looking --------------------------------------------------------------------------------

    def status(self) -> ReachStatus:
        """The present state; to be called in the event loop."""
        seconds = anyio.current_time() - self.down_since if self.down else 0.0
        return ReachStatus(not self.down, seconds, self._outages, self._error)

    # --- probes ---------------------------------------------------------------------------------

    async def _find_out(self) -> None:
        """Probe until something is answered; one task serves all failed requests."""
        calm = self._probe_answered + PROBE_INTERVAL - anyio.current_time()
        await anyio.sleep(max(FIRST_PROBE, calm))
        number = 0
        while self.troubled:
            problem = await self._probe(number)
            number += 1
            if problem is None:
                self._probe_answered = anyio.current_time()
                self.answered()
            elif self.troubled:
                self._go_down(problem)
                delay = PROBES.delay(self._level, self.clock.random())
                self._level += 1
                await anyio.sleep(delay)
        self._probing = False

    def _go_down(self, problem: str) -> None:
        self._error = problem
        if self.down:
            return
        now = anyio.current_time()
        flaps = now - self._up_since < CALM_SECONDS
        self._level = self._level if flaps else 0
        self._loud = not flaps
        self.down, self.down_since = True, now
        self._outages += 1
        if self._loud:
            server = self.transport.server
            self.log.warning(
                "the API server cannot be reached; work waits for it", server=server, error=problem
            )

    async def _probe(self, number: int) -> str | None:
        """Send a probe; returns what is wrong, or None.

        Every second probe asks for a followed collection: a gateway may let only that through.
        """
        path = self.path() if number % 2 else ""
        request = HttpRequest("GET", path, {"limit": "1"}) if path else HttpRequest("GET", _READY)
        try:
            with anyio.fail_after(PROBE_SECONDS):
                response = await self.transport.request(request)
        except TimeoutError:
            return f"{request}: no answer within {PROBE_SECONDS:g} s"
        except ApiError as error:
            return str(error)
        return self._judged(response, path)

    def _judged(self, response: Response, path: str) -> str | None:
        if response.status < (400 if path else 500):
            return None
        error = error_from_response(response.status, response.headers, response.body, f"GET {path or _READY}")
        if is_unreachable(error) and "readyz check failed" not in error.message:
            self._unready_since = None
            return str(error)
        now = anyio.current_time()
        if self._unready_since is None:
            self._unready_since = now
        return str(error) if now - self._unready_since < UNREADY_SECONDS else None


class ReachTransport(PassingTransport):
    """Reports the outcome of requests to a `Reachability`, and spreads them out after an outage.

    Streams are reported by their readers. With `paced=False` nothing waits.
    """

    def __init__(self, inner: Transport, reach: Reachability, *, paced: bool = True) -> None:
        super().__init__(inner)
        self.reach = reach
        self._paced = paced

    async def request(self, request: HttpRequest) -> Response:
        """Send one request and read the whole answer; see `Transport`."""
        reach = self.reach
        if reach.ramping and self._paced:
            await reach.turn()
        try:
            response = await self._inner.request(request)
        except TransportError as error:
            reach.failed(error)
            raise
        if response.status >= 500:
            refusal = error_from_response(response.status, response.headers, response.body)
            if is_unreachable(refusal):
                reach.failed(refusal)
        elif reach.troubled:
            reach.answered()
        return response
