"""Steps that wait for a person, and steps that follow from what a person asks for."""

from typing import Any

import anyio
import msgspec
import pytest

from informers import Snapshot
from reconcile import Context, Controller, Result
from reconcile.blocks import Steps, StepStatus
from reconcile.testing import FakeClient, ManagerRunner, VirtualCluster, run_once
from tests.blocks.test_steps import JOB, Calls, Job, edited, recorded

pytestmark = pytest.mark.rule("steps")


async def test_the_verdict_of_a_person_wakes_the_controller_and_no_step_does(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    calls, runs = Calls(), 0
    steps = Steps(Job, [calls.step("mail", interrupted="hold"), calls.step("last")])

    async def keep(ctx: Context[Job]) -> Result | None:
        nonlocal runs
        runs += 1
        return await steps.carry_out(ctx)

    cluster.client.add(JOB)
    await recorded(cluster.client, StepStatus("mail"))
    async with manager(Controller(Job, keep, wakes=steps.wakes)):
        await anyio.sleep(60)
        assert (calls.names, runs) == ([], 1)
        await recorded(cluster.client, StepStatus("mail", state="Done"))
        await anyio.sleep(60)
        assert (calls.names, runs) == (["last"], 3)
        await recorded(cluster.client, StepStatus("mail", state="Again"), StepStatus("last", state="Done"))
        await anyio.sleep(60)
        assert (calls.names, runs) == (["last", "mail"], 5)


async def test_a_status_that_a_person_made_a_mess_of_wakes_nothing_and_breaks_nothing() -> None:
    def state(steps: Any) -> Snapshot:
        body = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "status": {"steps": steps}}
        return Snapshot.from_json(msgspec.json.encode(body))

    test = Steps(Job, [])._has_verdict
    for mess in (None, "x", {"name": "a"}, [None, 7, {"state": ["Again"]}]):
        assert not test(state(mess), state(mess))
        assert not test(state([]), state(mess))


async def test_steps_may_follow_from_the_object() -> None:
    calls, client = Calls(), FakeClient(JOB)

    def steps_of(job: Job) -> Steps[Job]:
        return Steps(Job, [calls.step(f"item-{n}", undo=calls.call) for n in range(job.spec.size)])

    async def keep(ctx: Context[Job]) -> Result | None:
        return await steps_of(ctx.object).carry_out(ctx)

    async def clean_up(ctx: Context[Job]) -> Result | None:
        return await steps_of(ctx.object).undo(ctx)

    many = Controller(Job, keep, cleanup=clean_up)
    for size in (1, 3):
        await edited(client, size=size)
        while (await run_once(many, JOB, client)).result.wants_run:
            pass
    assert calls.names == ["item-0", "item-1", "item-2"]
    await client.delete(await client.get(Job, "a", "default"))
    while (await run_once(many, JOB, client)).result.wants_run:
        pass
    assert calls.names[3:] == ["item-2", "item-1", "item-0"]
