"""Registry secrets while requests go wrong and people change their minds."""

import os
import random
from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest
from attrs import define, field

from controllers.registrysecrets import KuberoPipeline, definition
from controllers.registrysecrets.models import PipelinePhase, PipelineRegistry
from controllers.registrysecrets.secret_contents import given_login
from reconcile import Key, Manager, ObjectMeta
from reconcile.blocks import Content
from reconcile.kinds import Secret
from reconcile.simulation import Delays
from reconcile.testing import (
    Cut,
    Drop,
    Expire,
    Fault,
    FaultPlan,
    FaultyTransport,
    LateTransport,
    LoseReply,
    Refuse,
    RefuseAsStale,
    When,
    simulate,
)
from tests.controllers.pipelines import (
    DOCKER,
    HOST,
    controller,
    copies,
    docker_config,
    mode,
    pipeline,
    respec,
    source,
)
from tests.controllers.world import NAMESPACE, World, world

SEEDS = 25
PLAYED = int(os.environ.get("COPY_SEEDS", SEEDS))
FOREIGN = {"mine": "YQ=="}


def faults(chance: random.Random) -> Iterator[Fault]:
    """Some requests that go wrong, spread over the run."""
    writes = (
        RefuseAsStale(),
        LoseReply(),
        Drop(),
        Refuse(500, "InternalError", "no"),
        Refuse(429, "", "wait"),
    )
    for _ in range(8):
        yield Fault(When("write", "*/secrets*", nth=chance.randint(1, 25)), chance.choice(writes))
    for path in ("/api/v1/secrets", "*/kuberopipelines", "/api/v1/namespaces"):
        yield Fault(
            When("watch", path), chance.choice((Cut(chance.randint(1, 9)), Expire(chance.randint(1, 9))))
        )


@define
class People:
    """What people do meanwhile; `given` is every value that they ever gave somebody to copy."""

    here: World
    given: set[str] = field(factory=set)

    async def rotate(self, number: int) -> None:
        """The source changes, or comes back."""
        rotated = source(f"password-{number}")
        self.given |= {*rotated.data.values(), *_login(f"password-{number}")}
        if await self.here.user.find(Secret, "registry-login", NAMESPACE) is None:
            await self.here.user.create(rotated)
        else:
            await self.here.user.raw.merge(rotated, {"data": dict(rotated.data)}, guard={})

    async def lose(self, number: int) -> None:
        """The source goes, or what it holds is of no use."""
        found = await self.here.user.find(Secret, "registry-login", NAMESPACE)
        if found is not None and number % 2:
            await self.here.user.delete(found)
        elif found is not None:
            await self.here.user.raw.merge(found, {"data": {DOCKER: "e30="}}, guard={})

    async def switch(self, number: int) -> None:
        """Another mode."""
        word = ("copy", "create", "none", "copy")[number % 4]
        own = {"username": "ci", "password": f"own-{number}"} if word == "create" else {}
        self.given |= {*_login(f"own-{number}")}
        await self.here.user.modify(KuberoPipeline, "shop", NAMESPACE, mode(word, **own))

    async def rephase(self, number: int) -> None:
        """Other phases."""
        phases = tuple(
            PipelinePhase(name, enabled=bool(number & bit)) for bit, name in ((1, "test"), (2, "production"))
        )
        await self.here.user.modify(KuberoPipeline, "shop", NAMESPACE, respec(phases=phases))

    async def meddle(self, number: int) -> None:
        """A hand in a copy."""
        for copy in list((await copies(self.here.user)).values())[:1]:
            if copy.namespace != "shop-review":
                await self.here.user.raw.merge(
                    copy, {"metadata": {"labels": {"hand": str(number)}}}, guard={}
                )
                await self.here.user.delete(copy)


def _login(password: str) -> tuple[str, ...]:
    """What credentials of it hold, and what a docker config made of it does."""
    registry = PipelineRegistry(host=HOST, username="ci", password=password)
    return tuple(
        value for one in given_login(registry) if isinstance(one, Content) for value in one.data.values()
    )


async def played(here: World, recorded: FaultyTransport, chance: random.Random) -> People:
    people = People(here)
    acts: list[Callable[[int], Awaitable[None]]] = [
        people.rotate,
        people.lose,
        people.switch,
        people.rephase,
        people.meddle,
    ]
    await people.rotate(0)
    await here.user.create(pipeline())
    for number in range(1, 13):
        await anyio.sleep(chance.choice((0.02, 0.3, 2.0)))
        await chance.choice(acts)(number)
    phases = tuple(PipelinePhase(name, enabled=True) for name in ("test", "production", "review"))
    await people.rotate(99)
    await here.user.modify(KuberoPipeline, "shop", NAMESPACE, mode("copy"))
    await here.user.modify(KuberoPipeline, "shop", NAMESPACE, respec(phases=phases))
    return people


@pytest.mark.rule("kubero-5d-01", "kubero-5d-04", "kubero-5d-07")
def test_under_every_fault_no_dummy_is_written_no_foreign_secret_touched_and_writes_end() -> None:
    for seed in range(PLAYED):
        simulate(lambda seed=seed: one(seed), seed=seed)  # type: ignore[misc]
    print(f"seeds played: {PLAYED}, in full (COPY_SEEDS): 2000")


async def one(seed: int) -> None:
    chance = random.Random(seed)
    async with world(seed, definition(), delays=Delays()) as here:
        theirs = ObjectMeta("kubero-pull-secret", "shop-review")
        await here.user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop-review"}})
        await here.user.create(Secret(metadata=theirs, data=FOREIGN))
        recorded = FaultyTransport(here.transport, FaultPlan(tuple(faults(chance))))
        manager = Manager(controller, transport=LateTransport(recorded, seed), clock=here.clock)
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            people = await played(here, recorded, chance)
            await anyio.sleep(400)
            sent = len(recorded.writes)
            await anyio.sleep(300)
            assert recorded.writes[sent:] == [], seed
            group.cancel_scope.cancel()
        found = await copies(here.user)
        assert found.pop(("shop-review", "kubero-pull-secret")).data == FOREIGN, seed
        held = {(key, value) for key, one in found.items() for value in one.data.values()}
        assert {name for _, name in found} == {"kubero-pull-secret", "registry-credentials"}
        assert len(found) == 5, seed
        assert {value for _, value in held} <= {docker_config("password-99"), *_login("password-99")}, seed
        for request in recorded.writes:
            if "/secrets" in request.path and request.body:
                wrote = {value for value in (request.body.get("data") or {}).values() if value is not None}
                assert wrote <= people.given, (seed, request.path)
                where = Key(request.path.split("/")[4], request.path.rpartition("/")[2])
                assert where != Key("shop-review", "kubero-pull-secret"), seed
