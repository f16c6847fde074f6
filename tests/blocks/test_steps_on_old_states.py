"""A step whose decision was made on an old state is repeated, and counts as no interruption."""

import anyio
import pytest
from attrs import frozen

from reconcile import Context, Controller, Object, ObjectMeta, Result, resource
from reconcile.blocks import Step, Steps, StepStatus
from reconcile.kinds import ConfigMap
from reconcile.models import definition_of
from tests.helpers.managers import World, played


@frozen
class JobStatus:
    steps: tuple[StepStatus, ...] = ()


@resource("jobs.example.com/v1")
class Job(Object):
    status: JobStatus = JobStatus()


@pytest.mark.parametrize("interrupted", ["hold", "repeat"])
def test_the_first_object_with_a_generated_name_is_made_in_a_step(interrupted: str) -> None:
    """Its first creation after a start ends the run, until the cache is certainly up to date."""
    calls: list[str] = []

    async def mail(ctx: Context[Job], step: object) -> None:
        calls.append(ctx.object.name)
        await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="mail-")))

    steps = Steps(Job, [Step("mail", mail, interrupted=interrupted)])  # type: ignore[arg-type]

    async def keep(ctx: Context[Job]) -> Result | None:
        return await steps.carry_out(ctx)

    async def scenario(world: World) -> None:
        await world.client.apply(definition_of(Job))
        async with world.running(Controller(Job, keep, owns=[ConfigMap], wakes=steps.wakes)):
            await world.client.create(Job(metadata=ObjectMeta("a", "default")))
            await anyio.sleep(30)
            job = await world.client.get(Job, "a", "default")
            made = await world.client.list(ConfigMap, "default")
        assert [(one.name, one.state) for one in job.status.steps] == [("mail", "Done")]
        assert (len(calls), len(made)) == (2, 1)

    played(scenario)
