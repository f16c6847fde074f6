"""A service outside the cluster, with laws, at whose every request something may go wrong."""

import asyncio
import contextlib
import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

import msgspec
from attrs import frozen

from informers.api_errors import OutcomeUnknown, Unreachable
from informers.transport import HttpRequest, PassingTransport, Response
from reconcile.controller.blocking import asking_here
from reconcile.testing.fake_services.service_laws import (
    AnswerLost,
    RateLimit,
    ServiceAnswer,
    ServiceCollection,
    ServiceRefusal,
    ServiceUnreachable,
    Span,
)
from reconcile.testing.fake_services.service_resources import Resources
from reconcile.testing.fake_services.service_routes import (
    Route,
    RouteTable,
    ServiceCall,
    operation_route,
    routes_of_collection,
)
from reconcile.testing.faults import (
    FailOperation,
    Fault,
    PartOfBatch,
    Refuse,
    ServiceFault,
    StaleRead,
    Verb,
    What,
    When,
)
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.recorded_requests import service_path, service_verb
from reconcile.testing.seeded_random import SeededRandom
from reconcile.testing.virtual_time import process_here

if TYPE_CHECKING:
    import aiohttp
    import httpx

T = TypeVar("T")

IDEMPOTENCY_KEY = "idempotency-key"
_JSON = {"content-type": "application/json"}
_NAME_PARTS = "abcdefghijklmnopqrstuvwxyz0123456789.-"


@frozen
class _Kept:
    """The answer that a key stands for, and the request that had it."""

    request: tuple[str, str, bytes]
    answer: ServiceAnswer
    until: float


class FakeService:
    """A service outside the cluster: a database server, a DNS, a cloud. All it has is in memory.

    Its `collections` are served as JSON over HTTP: `GET /accounts`, `POST /accounts`, `GET`, `PUT`, `PATCH`
    and `DELETE /accounts/ID`, `POST /accounts:batch`, with the laws that each declares. `routes` are further
    ones, by names such as `POST /accounts/{id}/close`, and take precedence; they work on
    `service.resources("accounts")`, so the laws hold for them too. `rate` limits all requests. A POST with
    an `Idempotency-Key` that was used within `keys_for` seconds gets the same answer again and does nothing;
    the same key with another request is refused with 422. With 0 the service knows no keys.

    A client reaches it without a socket: by `aiohttp_connector`, by `httpx_transport`, or by `call`.

    As `Scenario(outside=)` each request is a point at which `sweep` and `fuzz` break something, as at a
    request to the API server. Its path in a fault is `//name/path`: `When("create", "//billing/accounts")`.
    Elsewhere `add` and `fail` plan faults, and `line` has the requests.

    Raises ValueError for a bad name, and for two collections of one name.
    """

    def __init__(
        self,
        name: str,
        collections: Iterable[ServiceCollection[Any]] = (),
        *,
        routes: Mapping[str, Route] | None = None,
        rate: RateLimit | None = None,
        keys_for: float = 86_400.0,
        seed: int = 0,
    ) -> None:
        if not name or any(part not in _NAME_PARTS for part in name):
            raise ValueError(f"expected a name of small letters, digits, - and ., got {name!r}")
        declared = list(collections)
        if len({one.name for one in declared}) != len(declared):
            raise ValueError(f"two collections of {name} have one name")
        self.name = name
        self.collections: Mapping[str, Resources[Any]] = {
            one.name: Resources(one, self.now, self._draw) for one in declared
        }
        self.seed_with(seed)
        self.line = FaultyTransport(_NoServer(), outside={name: self})
        """What requests pass that come from no process of a scenario: `line.requests` has them."""
        self._lines: Mapping[int, FaultyTransport] = {}
        self._rate = rate
        self._recent: deque[float] = deque()
        self._keys_for = keys_for
        self._kept: dict[str, _Kept] = {}
        self._most_items: int | None = None
        self._table = RouteTable.of({**(routes or {}), **dict(self._own_routes())})

    # --- its content ------------------------------------------------------------------------------

    def resources(self, collection: ServiceCollection[T] | str) -> Resources[T]:
        """The resources of a collection, by its declaration or name. Raises LookupError for another one."""
        name = collection if isinstance(collection, str) else collection.name
        found = self.collections.get(name)
        if found is None:
            raise LookupError(f"{self.name} has no {name}, only {', '.join(self.collections)}")
        return cast("Resources[T]", found)

    def state(self) -> dict[str, Any]:
        """What decides how it answers, as JSON: resources without ids and times, and what is under way."""
        state: dict[str, Any] = {"keys": sorted(kept.request[1] for kept in self._kept.values())}
        for name, resources in self.collections.items():
            bodies = [_hidden(resources, resources.compared(value)) for value in resources.all()]
            state[name] = sorted(bodies, key=lambda body: msgspec.json.encode(body, order="deterministic"))
            if pending := sorted(resources.pending()):
                state[f"{name} pending"] = pending
        return state

    @property
    def late_until(self) -> float:
        """When its last change is seen by all reads and its last operation has ended (s, of the loop)."""
        return max((one.late_until for one in self.collections.values()), default=0.0)

    # --- its clients ------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> ServiceAnswer:
        """Send a request with a JSON body, and return the answer; an error is an answer like any other.

        Raises ServiceUnreachable if the request did not reach the service, AnswerLost if it may have.
        """
        content = b"" if body is None else msgspec.json.encode(body)
        answer = await self.exchange(method, path, headers or {}, content)
        decoded = msgspec.json.decode(answer.body) if answer.body else None
        return ServiceAnswer(answer.status, decoded, dict(answer.headers))

    def call_blocking(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> ServiceAnswer:
        """As `call`, for a reconciler that is a plain `def`; elsewhere it raises RuntimeError."""
        ask = asking_here.get()
        if ask is None:
            raise RuntimeError(
                "call_blocking works in a reconciler that is a plain def; in an async def await call()"
            )
        return ask(lambda: self.call(method, path, body, headers=headers))

    async def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Send a request as bytes, from the process in which this is called.

        Raises ServiceUnreachable if it did not reach the service, AnswerLost if it may have.
        """
        parts = urlsplit(target)
        request = HttpRequest(
            method.upper(),
            service_path(self.name, parts.path or "/"),
            dict(parse_qsl(parts.query, keep_blank_values=True)),
            {name.lower(): value for name, value in headers.items()},
            body,
        )
        line = self._lines.get(process_here() or 0, self.line)
        try:
            return await line.request(request)
        except Unreachable as error:
            raise ServiceUnreachable(str(error)) from None
        except OutcomeUnknown as error:
            raise AnswerLost(str(error)) from None

    def aiohttp_connector(self) -> "aiohttp.BaseConnector":
        """What an `aiohttp.ClientSession(connector=)` needs to reach this service, under any host name."""
        from reconcile.testing.fake_services.aiohttp_clients import ServiceConnector

        return ServiceConnector(self.exchange)

    def httpx_transport(self) -> "httpx.AsyncBaseTransport":
        """What an `httpx.AsyncClient(transport=)` needs to reach this service, under any host name."""
        from reconcile.testing.fake_services.httpx_clients import ServiceTransport

        return ServiceTransport(self.exchange)

    # --- its faults -------------------------------------------------------------------------------

    def add(self, *faults: Fault) -> None:
        """Add faults of requests that come from no process of a scenario; counted from now on."""
        self.line.add(*faults)

    def fail(self, verb: Verb, path: str, what: What, times: int | None = 1) -> None:
        """Have the next `times` requests (None: all) of a path such as `/accounts*` meet a fault."""
        self.add(Fault(When(verb, service_path(self.name, path), times=times), what))

    def mend(self) -> None:
        """Forget the faults of `add` and `fail`: from now on requests meet none."""
        self.line.mend()

    def join(self, lines: Mapping[int, FaultyTransport], seed: int, on_change: Callable[[], None]) -> None:
        """Take part in a run: requests of a process pass its line, and times are drawn from the seed."""
        self._lines = lines
        self.seed_with(seed)
        for resources in self.collections.values():
            resources.on_change = on_change

    def seed_with(self, seed: int) -> None:
        """Draw times from this seed from now on."""
        self._chance = SeededRandom(f"{seed}/service/{self.name}")

    def verb_of(self, request: HttpRequest) -> Verb:
        """What a request asks for, by its method; overridden where a service reads by POST."""
        return service_verb(request.method)

    # --- answering --------------------------------------------------------------------------------

    async def answer(self, request: HttpRequest, met: Sequence[What]) -> Response:
        """Answer a request that has reached the service, with the faults that concern it."""
        with self._faults_of(met):
            answer = self._limited(request)
        body = b"" if answer.body is None else msgspec.json.encode(answer.body)
        return Response(answer.status, {**(_JSON if body else {}), **answer.headers}, body)

    def refusal(self, fault: Refuse) -> Response:
        """The answer of a planned fault, in the form of this service."""
        headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        if fault.text is not None:
            return Response(fault.code, {"content-type": "text/plain", **headers}, fault.text.encode())
        message = fault.message or "refused by a planned fault"
        body = msgspec.json.encode(self.error_body(fault.code, fault.reason or "refused", message))
        return Response(fault.code, {**_JSON, **headers}, body)

    def refused(self, refusal: ServiceRefusal) -> ServiceAnswer:
        """The answer to a request that a law or a route refuses."""
        body = self.error_body(refusal.status, refusal.code, refusal.message)
        return ServiceAnswer(refusal.status, body, refusal.headers)

    def error_body(self, status: int, code: str, message: str) -> Any:
        """The JSON of an error; overridden for a service that has another form."""
        return {"error": {"code": code, "message": message}}

    def items_of_batch(self, count: int) -> int:
        """How many of `count` items of the batch under way are carried out."""
        return count if self._most_items is None else min(count, self._most_items)

    def now(self) -> float:
        """The time of the running loop in seconds; 0 outside of one."""
        loop = asyncio._get_running_loop()
        return 0.0 if loop is None else loop.time()

    def _draw(self, span: Span) -> float:
        return span[0] if span[0] == span[1] else self._chance.uniform(*span)

    def _own_routes(self) -> Iterator[tuple[str, Route]]:
        for resources in self.collections.values():
            yield from routes_of_collection(resources)
        if any(one.declared.operations for one in self.collections.values()):
            yield "GET /operations/{id}", self._operation

    def _operation(self, call: ServiceCall) -> Any:
        for resources in self.collections.values():
            if call.params["id"] in resources.operations:
                return operation_route(resources)(call)
        raise ServiceRefusal(404, "not_found", f"there is no operation {call.params['id']}")

    def _limited(self, request: HttpRequest) -> ServiceAnswer:
        rate, now = self._rate, self.now()
        if rate is not None:
            while self._recent and self._recent[0] <= now - rate.per:
                self._recent.popleft()
            if len(self._recent) >= rate.requests:
                wait = max(1, math.ceil(self._recent[0] + rate.per - now))
                message = f"at most {rate.requests} requests in {rate.per:g} s"
                return self.refused(
                    ServiceRefusal(429, "too_many_requests", message, headers={"retry-after": str(wait)})
                )
            self._recent.append(now)
        key = request.headers.get(IDEMPOTENCY_KEY, "") if request.method == "POST" and self._keys_for else ""
        return self._keyed(key, request, now) if key else self._routed(request)

    def _keyed(self, key: str, request: HttpRequest, now: float) -> ServiceAnswer:
        kept = self._kept.get(key)
        same = (request.method, request.path, request.body or b"")
        if kept is None or kept.until <= now:
            answer = self._routed(request)
            if answer.status < 500 and answer.status != 429:
                self._kept[key] = _Kept(same, answer, now + self._keys_for)
            return answer
        if kept.request != same:
            return self.refused(
                ServiceRefusal(422, "key_reused", "the Idempotency-Key belongs to another request")
            )
        return ServiceAnswer(
            kept.answer.status, kept.answer.body, {**kept.answer.headers, "idempotent-replayed": "true"}
        )

    def _routed(self, request: HttpRequest) -> ServiceAnswer:
        path = request.path.removeprefix(f"//{self.name}")
        try:
            route, params = self._table.find(request.method, path)
            answer = route(
                ServiceCall(
                    self, request.method, path, params, request.query, request.headers, request.body or b""
                )
            )
        except ServiceRefusal as refused:
            return self.refused(refused)
        return answer if isinstance(answer, ServiceAnswer) else ServiceAnswer(200, answer)

    @contextlib.contextmanager
    def _faults_of(self, met: Sequence[What]) -> Iterator[None]:
        faults = [fault for fault in met if isinstance(fault, ServiceFault)]
        if not faults:
            yield
            return
        for fault in faults:
            match fault:
                case StaleRead(changes=changes):
                    for resources in self.collections.values():
                        resources.stale_by = changes
                case FailOperation():
                    for resources in self.collections.values():
                        resources.next_fails = True
                case PartOfBatch(items=items):
                    self._most_items = items
        try:
            yield
        finally:
            self._most_items = None
            for resources in self.collections.values():
                resources.stale_by, resources.next_fails = 0, False


def services_of(outside: Any) -> Sequence[FakeService]:
    """The services in what a scenario has outside the cluster: it, or its fields or items.

    Raises ValueError for two of one name.
    """
    parts: Iterable[Any] = (outside,) if isinstance(outside, FakeService) else _parts(outside)
    services = tuple(part for part in parts if isinstance(part, FakeService))
    names = [service.name for service in services]
    if len(set(names)) != len(names):
        raise ValueError(f"two services outside have one name: {', '.join(names)}")
    return services


def _parts(outside: Any) -> Iterator[Any]:
    if isinstance(outside, Mapping):
        yield from outside.values()
    elif isinstance(outside, list | tuple):
        yield from outside
    else:
        yield from getattr(outside, "__dict__", {}).values()
        for kind in type(outside).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                yield getattr(outside, name, None)


class _NoServer(PassingTransport):
    """There is no API server: a line that has one service alone."""

    def __init__(self) -> None:
        """Nothing is passed on."""

    @property
    def server(self) -> str:
        return "none"

    def _refuse(self, request: HttpRequest) -> NoReturn:
        raise LookupError(f"{request} is for no service")

    async def request(self, request: HttpRequest) -> Response:
        self._refuse(request)

    def stream(self, request: HttpRequest) -> NoReturn:
        self._refuse(request)

    async def aclose(self) -> None:
        """Nothing is open."""


def _hidden(resources: Resources[Any], body: dict[str, Any]) -> dict[str, Any]:
    secret = resources.declared.secret
    return {name: _digest(value) if name in secret else value for name, value in body.items()}


def _digest(value: Any) -> str:
    """What replaces a secret: equal ones stay equal."""
    content = msgspec.json.encode(value, order="deterministic")
    return f"<secret {hashlib.blake2b(content, digest_size=4).hexdigest()}>"
