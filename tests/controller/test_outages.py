"""A whole manager while its server goes away, forgets, refuses or stumbles: it recovers, and is no flood."""

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from informers import CacheSyncFailed, OutcomeUnknown, Response
from reconcile import Client, Controller, LeaderElection, Manager
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import LeadershipLost
from reconcile.kinds import ConfigMap
from reconcile.testing import LateTransport, simulate
from reconcile.testing.fault_answers import refusal
from reconcile.testing.faults import Refuse
from tests.controller.outage import Weather, World, build, fair, refused
from tests.helpers.managers import Toy
from tests.helpers.tasks import beside

TOYS = 20
BURST = 60
"""Requests that a manager may send in any one second: two for each toy, if all are done at once, and some."""
AVERAGE = 5.0
"""Requests a second that it may send over a whole outage."""


def unauthorized(method: str, path: str) -> Response:
    return refusal(Refuse(401, "Unauthorized"))


def stumbling(chance: random.Random) -> Weather:
    """One request in ten ends by 429, 500 or a reset."""

    def weather(method: str, path: str) -> Response | Exception | None:
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


class Shop(World):
    """A server with toys that answers late, and a manager that gives each a child and a status."""

    def __init__(self, seed: int, history: int = 100_000) -> None:
        super().__init__(seed)
        self.starts = 0
        self.chance = random.Random(seed)
        self.lead_to(ApiServer(clock=self.clock, history=history))

    def lead_to(self, server: ApiServer) -> None:
        self.server = server
        self.client = Client(InProcessTransport(server), clock=self.clock)
        self.line.lead_to(LateTransport(InProcessTransport(server), self.seed))

    async def keep_open(self, election: LeaderElection | None) -> None:
        """Run a manager, and another one whenever one ends by a lost lease, as a kubelet does."""
        while True:
            self.starts += 1
            manager = Manager(
                Controller(Toy, build, owns=[ConfigMap]),
                transport=self.line,
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


def played(scenario: Callable[[Shop], Any], *, seed: int, elected: bool) -> Shop:
    shop = Shop(seed)
    election = LeaderElection("shop", identity="only") if elected else None

    async def run() -> None:
        await shop.stock(TOYS)
        async with beside(shop.server.run), beside(shop.keep_open, election):
            await anyio.sleep(30)
            assert await shop.is_done(1)
            await scenario(shop)

    simulate(run, seed=seed, limit_seconds=7200)
    return shop


def bounded(shop: Shop, since: float, seconds: float) -> None:
    """Assert that neither any one second nor all of them together saw too many requests."""
    sent = Counter(math.floor(at) for at, _, _ in shop.line.sent)
    counts = [sent[math.floor(since) + second] for second in range(math.ceil(seconds))]
    assert max(counts) <= BURST
    assert sum(counts) / seconds <= AVERAGE


async def pass_through(shop: Shop, weather: Weather, seconds: float) -> None:
    """Bad weather for so long, in which toys are resized; a while later everything is as it should be."""
    began = anyio.current_time()
    shop.line.break_down(weather)
    await anyio.sleep(seconds / 2)
    await shop.resize(2)
    await anyio.sleep(seconds / 2)
    bounded(shop, began, seconds)
    shop.line.weather = fair
    await anyio.sleep(120)
    assert await shop.is_done(2)
    bounded(shop, began + seconds, 120)
    await shop.resize(3)
    await anyio.sleep(5)
    assert await shop.is_done(3)


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
@pytest.mark.parametrize("seconds", [5, 30, 600])
def test_an_outage_is_survived_without_a_flood_of_requests(seconds: float, elected: bool) -> None:
    shop = played(lambda shop: pass_through(shop, refused, seconds), seed=1, elected=elected)
    assert (shop.starts == 1) is (seconds == 5 or not elected)


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
def test_an_expired_and_renewed_token_is_survived(elected: bool) -> None:
    played(lambda shop: pass_through(shop, unauthorized, 60), seed=2, elected=elected)


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_failures_of_one_request_in_ten_are_survived_without_losing_the_lease(
    seed: int, elected: bool
) -> None:
    shop = played(lambda shop: pass_through(shop, stumbling(shop.chance), 300), seed=seed, elected=elected)
    assert shop.starts == 1


@pytest.mark.rule("outage-1")
@pytest.mark.parametrize("elected", [False, True])
def test_a_server_that_restarts_without_its_data_is_reconciled_from_its_new_state(elected: bool) -> None:
    async def scenario(shop: Shop) -> None:
        began = anyio.current_time()
        shop.lead_to(ApiServer(clock=shop.clock))
        async with beside(shop.server.run):
            await anyio.sleep(20)
            await shop.stock(TOYS, size=5)
            await anyio.sleep(120)
            assert await shop.is_done(5)
            bounded(shop, began, 140)

    played(scenario, seed=4, elected=elected)
