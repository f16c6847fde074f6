"""Steps that take the place of sub-handlers of kopf: what it has handled is not done again."""

import json
from typing import Any

import pytest
from attrs import define, field

from reconcile import Context, Controller, ObjectMeta, Predecessor, Result
from reconcile.blocks import Step, StepRun, Steps
from reconcile.errors import HalfCreated
from reconcile.testing import FakeClient, run_once
from tests.blocks.test_steps import Job, JobSpec

pytestmark = pytest.mark.rule("steps")

KOPF = Predecessor.kopf("jobs on kopf")
COPY = "kopf.zalando.org/last-handled-configuration"


@define
class Calls:
    made: list[StepRun] = field(factory=list)

    async def call(self, ctx: Context[Job], step: StepRun) -> Result | None:
        self.made.append(step)
        return None

    def controller(self) -> Controller[Job]:
        sized = Step("size", self.call, once_for=lambda job: job.spec.size)
        steps = Steps(Job, [Step("one", self.call), sized], predecessor=KOPF)

        async def keep(ctx: Context[Job]) -> Result | None:
            return await steps.carry_out(ctx)

        return Controller(Job, keep, predecessor=KOPF)

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.made]


def job(copy: Any = None, size: int = 1, **annotations: str) -> Job:
    """An object with kopf's copy, if there is one."""
    texts = {COPY: copy if isinstance(copy, str) else json.dumps(copy)} if copy is not None else {}
    return Job(metadata=ObjectMeta("a", "default", annotations={**texts, **annotations}), spec=JobSpec(size))


async def until_quiet(calls: Calls, client: FakeClient) -> Job:
    for _ in range(10):
        done = await run_once(calls.controller(), job(), client)
        assert done.error is None
        if done.result is None or not done.result.wants_run:
            return await client.get(Job, "a", "default")
    raise AssertionError("no end")


async def test_what_kopf_has_handled_counts_as_carried_out_and_nothing_of_kopf_stays() -> None:
    calls, client = Calls(), FakeClient(job({"spec": {"size": 1}}))
    after = await until_quiet(calls, client)
    assert calls.made == []
    assert [(one.name, one.state, one.message) for one in after.status.steps] == [
        ("one", "Done", "carried out by jobs on kopf"),
        ("size", "Done", "carried out by jobs on kopf"),
    ]
    assert COPY not in after.metadata.annotations
    await client.modify(Job, "a", "default", lambda one: one.replace(spec=JobSpec(2)))
    await until_quiet(calls, client)
    assert [(one.name, one.value, one.before) for one in calls.made] == [("size", 2, 1)]


async def test_a_change_that_kopf_has_not_handled_is_carried_out_with_the_value_before() -> None:
    calls, client = Calls(), FakeClient(job({"spec": {"size": 1}}, size=5))
    await until_quiet(calls, client)
    assert [(one.name, one.value, one.before) for one in calls.made] == [("size", 5, 1)]


async def test_steps_of_several_handlers_share_the_field_of_their_records() -> None:
    calls, client = Calls(), FakeClient(job({"spec": {"size": 1}}))
    one, two = (Steps(Job, [Step(name, calls.call)], predecessor=KOPF) for name in ("one", "two"))
    new = Steps(Job, [Step("new", calls.call)])

    async def keep(ctx: Context[Job]) -> Result | None:
        return await one.carry_out(ctx) or await two.carry_out(ctx) or await new.carry_out(ctx)

    controller = Controller(Job, keep, predecessor=KOPF)
    for _ in range(2):
        assert (await run_once(controller, job(), client)).error is None
    stored = await client.get(Job, "a", "default")
    assert calls.names == ["new"]
    assert [(one.name, one.state) for one in stored.status.steps] == [
        ("new", "Done"), ("two", "Done"), ("one", "Done"),
    ]  # fmt: skip


async def test_an_object_that_kopf_has_never_seen_gets_all_steps() -> None:
    calls, client = Calls(), FakeClient(job())
    await until_quiet(calls, client)
    assert calls.names == ["one", "size"]


async def test_an_object_that_kopf_created_by_half_is_held_and_none_of_its_steps_begins() -> None:
    record = json.dumps({"purpose": "create", "started": "2026-01-01T00:00:00", "success": False})
    calls, client = Calls(), FakeClient(job(**{"kopf.zalando.org/make": record}))
    done = await run_once(calls.controller(), job(), client)
    assert isinstance(done.error, HalfCreated)
    assert calls.made == []


async def test_an_object_whose_creation_a_person_has_finished_gets_no_step_of_it() -> None:
    calls, client = Calls(), FakeClient(job({}, size=5))  # the copy that `switch --finished` writes
    after = await until_quiet(calls, client)
    assert calls.made == []
    assert [one.value for one in after.status.steps] == ["", "5"]


@pytest.mark.parametrize("copy", ["", "no JSON", "[]", "{}", '{"spec": {"size": "x"}}', '{"metadata": 1}'])
async def test_a_copy_that_cannot_be_read_still_says_that_the_object_was_handled(copy: str) -> None:
    calls, client = Calls(), FakeClient(job(copy))
    after = await until_quiet(calls, client)
    assert "one" not in calls.names
    assert {one.name for one in after.status.steps} == {"one", "size"}


async def test_a_takeover_whose_record_cannot_be_written_leaves_the_copy_for_the_next_run() -> None:
    calls, client = Calls(), FakeClient(job({"spec": {"size": 1}}))
    client.fail("patch", "*/jobs/a/status", 500)
    done = await run_once(calls.controller(), job(), client)
    assert done.error is not None
    await until_quiet(calls, client)
    assert calls.made == []


def test_a_predecessor_of_another_framework_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected Predecessor\.kopf"):
        Steps(Job, [], predecessor=Predecessor("jobs in Go"))
