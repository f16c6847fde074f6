"""Steps under all faults, all orders and all changes of a spec: of the how-to page, and with a ledger."""

import os
from functools import partial
from typing import Any

import pytest
import yaml
from attrs import define, field

from reconcile import Context, Controller, Result
from reconcile.blocks import Step, StepRun, Steps
from reconcile.models import encode
from reconcile.testing import (
    Apply,
    Delete,
    Edit,
    FakeClient,
    Scenario,
    World,
    explore,
    run_once,
    sweep,
    transitions,
)
from tests.blocks.test_steps import JOB, Job
from tests.docs.blocks import code, run

pytestmark = pytest.mark.rule("steps")
RUNS = int(os.environ.get("STEPS_RUNS", "40")) or None  # of each proof; 0: all, as in `make laboratory`
PAGE = run("docs/how-to/carry-out-steps.md")


def test_each_step_of_the_page_is_carried_out_once_whatever_fails() -> None:
    PAGE["sweep"] = partial(sweep, most=RUNS)
    PAGE["test_each_step_is_carried_out_once_whatever_fails"]()


async def test_the_status_of_a_database_is_as_the_page_shows() -> None:
    client, web = FakeClient(PAGE["WEB"]), PAGE["WEB"]
    databases = PAGE["databases"](PAGE["fake_cloud"]())
    await run_once(databases, web, client)
    await run_once(databases, web, client)
    (text,) = code("docs/how-to/carry-out-steps.md", "yaml")
    shown = yaml.safe_load(text)
    status = encode(await client.get(PAGE["Database"], "web", "default"))["status"]
    came = [{**step, "since": shown["steps"][0]["since"]} for step in status["steps"]]
    assert {**status, "steps": came} == shown


def test_a_database_of_the_page_that_is_changed_is_as_a_new_one() -> None:
    scenario = Scenario(controllers=PAGE["databases"], outside=PAGE["fake_cloud"], steps=[Apply(PAGE["WEB"])])
    past = ["databases.status.steps", "databases.status.server"]
    report = transitions(scenario, budget=3, skip=["spec.approved"], one_way=past)
    assert report.transitions > 5, str(report)


@define
class Ledger:
    """A world outside that remembers each effect, and in which order they came."""

    size: int = 0
    effects: list[str] = field(factory=list)
    """Tokens of what was carried out; a token that is known carries nothing out."""
    order: list[str] = field(factory=list)
    ended: set[str] = field(factory=set)

    def carry_out(self, step: StepRun) -> None:
        assert step.token not in self.ended, f"{step.token} was called after its end was recorded"
        if step.token not in self.effects:
            self.effects.append(step.token)
            self.order.append(step.name)


def jobs(ledger: Ledger) -> Controller[Job]:
    async def effect(ctx: Context[Job], step: StepRun) -> None:
        ledger.carry_out(step)

    async def resize(ctx: Context[Job], step: StepRun) -> None:
        ledger.carry_out(step)
        ledger.size = step.value

    async def undo(ctx: Context[Job], step: StepRun) -> None:
        if step.token in ledger.effects:
            ledger.effects.remove(step.token)

    steps = Steps(
        Job,
        [
            Step("first", effect, undo=undo),
            Step("size", resize, once_for=lambda job: job.spec.size, undo=undo),
            Step("last", effect, undo=undo),
        ],
    )

    async def keep(ctx: Context[Job]) -> Result | None:
        return await steps.carry_out(ctx)

    return Controller(Job, keep, cleanup=steps.undo)


def note_ends(world: World) -> None:
    """What the status says is done was carried out, in order, and is never called again."""
    ledger: Ledger = world.outside
    for job in world.objects(Job):
        done = [one for one in job.status.steps if one.state == "Done"]
        ledger.ended.update(f"{job.uid}-{one.name}-{one.round}" for one in done)
    assert not job_is_ahead(ledger), f"out of order: {ledger.order}"


def job_is_ahead(ledger: Ledger) -> bool:
    """Whether a step was carried out before one that comes before it."""
    firsts = [ledger.order.index(name) for name in ("first", "size", "last") if name in ledger.order]
    return firsts != sorted(firsts)


def sizes_agree(world: World) -> None:
    for job in world.objects(Job):
        assert world.outside.size == job.spec.size


def scenario(*steps: Any, **options: Any) -> Scenario:
    return Scenario(
        controllers=jobs, outside=Ledger, steps=steps, always=[note_ends], invariants=[sizes_agree], **options
    )


THERE_AND_BACK = (Edit(JOB, {"spec": {"size": 2}}), Edit(JOB, {"spec": {"size": 1}}))


def test_no_step_is_called_after_its_end_whatever_fails() -> None:
    whole = scenario(Apply(JOB), *THERE_AND_BACK, Delete(JOB))
    report = sweep(whole, most=RUNS, old_views=True)
    assert report.runs == RUNS or report.runs == report.in_full > 100, str(report)


def test_no_step_is_called_after_its_end_in_any_order_with_a_crash_anywhere() -> None:
    """All 1.8 million schedules; in full all 437 million with two crashes and a lost answer."""
    more = {} if RUNS else {"crashes": 2, "lost_answers": 1}
    report = explore(scenario(Apply(JOB), *THERE_AND_BACK), seconds=600, **more)
    assert report.exhaustive, str(report)
