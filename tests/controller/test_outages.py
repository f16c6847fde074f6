"""A whole manager while its server goes away, forgets, refuses or stumbles: it recovers, and is no flood."""

import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from informers import CacheSyncFailed, OutcomeUnknown, Response, StreamingResponse, Unreachable
from informers.transport import HttpRequest, PassingTransport
from reconcile import Client, Context, Controller, LeaderElection, Manager, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import LeadershipLost
from reconcile.kinds import ConfigMap
from reconcile.models import definition_of
from reconcile.testing import LateTransport, VirtualClock, simulate
from reconcile.testing.fault_answers import refusal
from reconcile.testing.faults import Refuse
from tests.helpers.managers import Toy, ToySpec

TOYS = 20
BURST = 60
"""Requests that a manager may send in any one second: two for each toy, if all are done at once, and some."""
AVERAGE = 5.0
"""Requests a second that it may send over a whole outage."""

Weather = Callable[[str], "Response | Exception | None"]


class Sky(PassingTransport):
    """A way to a server on which the weather decides about each request; it counts them by second."""

    def __init__(self, server: ApiServer, seed: int) -> None:
        super().__init__(LateTransport(InProcessTransport(server), seed))
        self.chance = random.Random(seed)
        self.weather: Weather = fair
        self.seconds: Counter[int] = Counter()
        self.streams = 0
        self._reading: set[anyio.CancelScope] = set()

    def lead_to(self, server: ApiServer, seed: int) -> None:
        """Another server answers from now on; what was open is cut."""
        self._inner = LateTransport(InProcessTransport(server), seed)
        self.cut()

    def cut(self) -> None:
        """Reset all streams."""
        for scope in self._reading:
            scope.cancel()

    async def request(self, request: HttpRequest) -> Response:
        answer = self._answer(request.method)
        return await super().request(request) if answer is None else answer

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        answer = self._answer(request.method)
        if answer is not None:
            yield StreamingResponse(answer.status, answer.headers, _Once(answer.body))
            return
        async with self._inner.stream(request) as found:
            self.streams += 1
            try:
                yield StreamingResponse(found.status, found.headers, _Cuttable(found.chunks, self._reading))
            finally:
                self.streams -= 1

    def _answer(self, method: str) -> Response | None:
        self.seconds[math.floor(anyio.current_time())] += 1
        happened = self.weather(method)
        if isinstance(happened, Exception):
            raise happened
        return happened


class _Once:
    def __init__(self, body: bytes) -> None:
        self._rest = [body]

    def __aiter__(self) -> "_Once":
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop()


class _Cuttable:
    def __init__(self, chunks: AsyncIterator[bytes], reading: set[anyio.CancelScope]) -> None:
        self._chunks = chunks
        self._reading = reading

    def __aiter__(self) -> "_Cuttable":
        return self

    async def __anext__(self) -> bytes:
        with anyio.CancelScope() as scope:
            self._reading.add(scope)
            try:
                return await self._chunks.__anext__()
            finally:
                self._reading.discard(scope)
        raise OutcomeUnknown("the connection was reset", "a stream")


def fair(method: str) -> None:
    """Everything is answered."""


def down(method: str) -> Exception:
    return Unreachable("nothing listens there", method)


def unauthorized(method: str) -> Response:
    return refusal(Refuse(401, "Unauthorized"))


def stumbling(chance: random.Random) -> Weather:
    """One request in ten ends by 429, 500 or a reset."""

    def weather(method: str) -> Response | Exception | None:
        if chance.random() >= 0.1:
            return None
        return chance.choice(
            [
                refusal(Refuse(429, text="later", retry_after=1)),
                refusal(Refuse(500, "InternalError")),
                OutcomeUnknown("the connection was reset", method),
            ]
        )

    return weather


class Shop:
    """A server with toys, and a manager that gives each a child and a status."""

    kind = Toy

    def __init__(self, seed: int, history: int = 100_000) -> None:
        self.clock = VirtualClock(seed)
        self.server = ApiServer(clock=self.clock, history=history)
        self.sky = Sky(self.server, seed)
        self.starts = 0

    @property
    def client(self) -> Client:
        """Of the test: what it asks is never in the weather."""
        return Client(InProcessTransport(self.server), clock=self.clock)

    async def stock(self, size: int) -> None:
        await self.client.apply(definition_of(Toy))
        for number in range(TOYS):
            await self.make(f"toy-{number}", size)

    async def make(self, name: str, size: int) -> None:
        await self.client.create(Toy(metadata=ObjectMeta(name, "default"), spec=ToySpec(size=size)))

    async def resize(self, size: int) -> None:
        for toy in await self.client.list(Toy, "default"):
            await self.client.raw.merge(toy, {"spec": {"size": size}})

    async def keep_open(self, election: LeaderElection | None) -> None:
        """Run a manager, and another one whenever one ends by a lost lease, as a kubelet does."""
        while True:
            self.starts += 1
            manager = Manager(
                Controller(Toy, build, owns=[ConfigMap]),
                transport=self.sky,
                clock=self.clock,
                leader_election=election,
                environ={},
            )
            try:
                await manager.run()
            except (LeadershipLost, CacheSyncFailed):
                await anyio.sleep(1)

    async def is_done(self, size: int) -> bool:
        toys = await self.client.list(Toy, "default")
        children = {
            child.name: child.data.get("size") for child in await self.client.list(ConfigMap, "default")
        }
        wanted = {f"toy-{number}": str(size) for number in range(TOYS)}
        return children == wanted and all(toy.status.size == size for toy in toys)


async def build(ctx: Context[Toy]) -> None:
    size = ctx.object.spec.size
    await ctx.apply(ConfigMap(metadata=ObjectMeta(ctx.object.name), data={"size": str(size)}))
    ctx.status(size=size)


def played(scenario: Callable[[Shop], Any], *, seed: int, elected: bool) -> Shop:
    shop = Shop(seed)
    election = LeaderElection("shop", identity="only") if elected else None

    async def run() -> None:
        await shop.stock(1)
        async with anyio.create_task_group() as group:
            group.start_soon(shop.server.run)
            group.start_soon(shop.keep_open, election)
            await anyio.sleep(30)
            assert await shop.is_done(1)
            await scenario(shop)
            group.cancel_scope.cancel()

    simulate(run, seed=seed, limit_seconds=7200)
    return shop


def bounded(shop: Shop, since: float, seconds: float) -> None:
    """Assert that neither any one second nor all of them together saw too many requests."""
    counts = [shop.sky.seconds[math.floor(since) + second] for second in range(math.ceil(seconds))]
    assert max(counts) <= BURST
    assert sum(counts) / seconds <= AVERAGE


async def pass_through(shop: Shop, weather: Weather, seconds: float) -> None:
    """Bad weather for so long, in which toys are resized; a while later everything is as it should be."""
    began = anyio.current_time()
    shop.sky.weather = weather
    shop.sky.cut()
    await anyio.sleep(seconds / 2)
    await shop.resize(2)
    await anyio.sleep(seconds / 2)
    bounded(shop, began, seconds)
    shop.sky.weather = fair
    await anyio.sleep(120)
    assert await shop.is_done(2)
    bounded(shop, began + seconds, 120)
    await shop.resize(3)
    await anyio.sleep(5)
    assert await shop.is_done(3)


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
@pytest.mark.parametrize("seconds", [30, 600])
def test_an_outage_is_outlived_without_a_flood_of_requests(seconds: float, elected: bool) -> None:
    shop = played(lambda shop: pass_through(shop, down, seconds), seed=1, elected=elected)
    assert (shop.starts == 1) is not elected


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
def test_a_token_that_expires_and_is_renewed_is_outlived(elected: bool) -> None:
    played(lambda shop: pass_through(shop, unauthorized, 60), seed=2, elected=elected)


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_one_request_in_ten_that_fails_is_outlived_and_costs_no_lease(seed: int, elected: bool) -> None:
    shop = played(
        lambda shop: pass_through(shop, stumbling(shop.sky.chance), 300), seed=seed, elected=elected
    )
    assert shop.starts == 1


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
def test_a_server_that_restarts_with_its_data_is_taken_up_again(elected: bool) -> None:
    async def scenario(shop: Shop) -> None:
        await pass_through(shop, down, 5)

    shop = played(scenario, seed=3, elected=elected)
    assert shop.starts == 1


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
def test_a_server_that_restarts_without_its_data_is_taken_as_it_now_is(elected: bool) -> None:
    async def scenario(shop: Shop) -> None:
        began = anyio.current_time()
        shop.server = ApiServer(clock=shop.clock)
        shop.sky.lead_to(shop.server, 4)
        async with anyio.create_task_group() as group:
            group.start_soon(shop.server.run)
            await anyio.sleep(20)
            await shop.stock(5)
            await anyio.sleep(120)
            assert await shop.is_done(5)
            bounded(shop, began, 140)
            group.cancel_scope.cancel()

    played(scenario, seed=4, elected=elected)
