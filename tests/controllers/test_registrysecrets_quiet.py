"""Registry secrets at rest: nothing is asked for, whatever the watches go through; and a thousand of them."""

import os

import anyio
import pytest
from attrs import evolve

from controllers.registrysecrets import KuberoPipeline, definition
from controllers.registrysecrets.models import PipelineRegistry
from reconcile import Manager, ObjectMeta, Request
from reconcile.kinds import Secret
from reconcile.simulation import Delays
from reconcile.testing import Cut, EndEarly, Expire, Fault, FaultPlan, FaultyTransport, LateTransport, When
from tests.controllers.pipelines import DOCKER, HOST, controller, copies, docker_config, pipeline, source
from tests.controllers.world import NAMESPACE, World, world
from tests.helpers.scenarios import simulated

SECRETS = "/api/v1/secrets"
PIPELINES = "*/kuberopipelines"


def broken(path: str) -> tuple[Fault, ...]:
    """The connection is reset, then 410 comes so that all is listed anew, then the watch ends in order."""
    return (
        Fault(When("watch", path, nth=2), Cut(after=3)),
        Fault(When("watch", path, nth=3), Expire(after=3)),
        Fault(When("watch", path, nth=4), EndEarly(after=3)),
    )


BREAKS = FaultPlan((*broken(SECRETS), *broken("/api/v1/namespaces"), *broken(PIPELINES)))


@pytest.mark.rule("kubero-5d-01", "kubero-5d-10")
@pytest.mark.parametrize("seed", range(2))
@simulated
async def test_broken_watches_a_resync_and_forced_runs_for_ten_minutes_cause_no_requests(seed: int) -> None:
    """Requests count, also those that a server would answer without a change."""
    async with world(seed, definition(), delays=Delays()) as here:
        for made in (source(), pipeline(), given(), pipeline(name="blog", mode="none")):
            await here.user.create(made)
        recorded = FaultyTransport(here.transport, BREAKS)
        resyncing = evolve(controller, resync=150.0)
        manager = Manager(
            resyncing, transport=LateTransport(recorded, seed, lag=(0.05, 0.5)), clock=here.clock
        )
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            await anyio.sleep(30)
            assert len(await copies(here.user)) == 8
            sent, lists = len(recorded.writes), listed(recorded)
            (before,) = manager.status().controllers
            for number in range(100):
                for name in ("shop", "given", "blog"):
                    manager.trigger(resyncing, Request(NAMESPACE, name), "forced")
                await noise(here, number)
                await anyio.sleep(6)
            (after,) = manager.status().controllers
            assert [request.path for request in recorded.writes[sent:]] == []
            assert after.runs - before.runs >= 300 + 3 * 3  # forced, and three resyncs at least
            assert (after.failures, before.failures) == (0, 0)
            assert len(recorded.applied) == len(BREAKS.faults), recorded.applied
            assert listed(recorded) >= lists + 3
            group.cancel_scope.cancel()


def given() -> KuberoPipeline:
    """A pipeline of the mode create."""
    registry = PipelineRegistry(create_secret="create", host=HOST, username="me", password="mine")
    return pipeline(name="given", registry=registry)


def listed(recorded: FaultyTransport) -> int:
    """How often something was listed: by a list, or by a watch that begins with one."""
    begins = [one for one in recorded.requests if one.verb == "watch" and "sendInitialEvents" in one.query]
    return len([one for one in recorded.requests if one.verb == "list"]) + len(begins)


async def noise(here: World, number: int) -> None:
    """What others do meanwhile, so that there are lines on which watches can break."""
    metadata = ObjectMeta(f"noise-{number}", NAMESPACE)
    await here.user.create(Secret(metadata=metadata))
    await here.user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"noise-{number}"}})
    touch = {"metadata": {"annotations": {"noise": str(number)}}}
    await here.user.raw.merge(pipeline(name="blog"), touch, guard={})


@pytest.mark.timeout(180)
@pytest.mark.rule("kubero-5d-03", "kubero-5d-09")
@simulated
async def test_many_pipelines_share_one_watch_and_a_rotation_costs_one_write_per_copy() -> None:
    number = int(os.environ.get("PIPELINES", "200"))
    async with world(0, definition(), delays=Delays()) as here:
        first = await here.user.create(source())
        for each in range(number):
            await here.user.create(pipeline("test", name=f"p{each}"))
        async with here.running(controller) as recorded:
            await settled(recorded)
            assert len(await copies(here.user)) == 2 * number
            watches = [request.path for request in recorded.requests if request.verb == "watch"]
            assert watches.count(SECRETS) == 1
            assert len(watches) == 3
            sent = len(recorded.writes)
            await here.user.raw.merge(first, {"data": {DOCKER: docker_config("rotated")}}, guard={})
            await settled(recorded)
            wrote = [request.path for request in recorded.writes[sent:] if "/secrets/" in request.path]
            assert (len(wrote), len(set(wrote))) == (2 * number, 2 * number)
            rest = [request for request in recorded.writes[sent:] if "/secrets/" not in request.path]
            assert len([request for request in rest if request.path.endswith("/status")]) == number
            assert not [r for r in rest if "/events" not in r.path and not r.path.endswith("/status")]


async def settled(recorded: FaultyTransport) -> None:
    """Wait until a minute has passed without a request for a change."""
    sent = -1
    while sent != len(recorded.writes):
        sent = len(recorded.writes)
        await anyio.sleep(60)
