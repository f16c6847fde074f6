"""Steps: each once, in order, whatever fails; and what a record means for the next run."""

import base64
from typing import Any

import pytest
from attrs import define, field, frozen

from reconcile import Context, Controller, Object, ObjectMeta, Result, resource
from reconcile.blocks import Step, StepRun, Steps, StepStatus
from reconcile.errors import TerminalError
from reconcile.kinds import Secret
from reconcile.testing import (
    FakeClient,
    RunReport,
    assert_deterministic,
    run_once,
)

pytestmark = pytest.mark.rule("steps")


@frozen
class JobSpec:
    size: int = 1
    color: str = "red"


@frozen
class JobStatus:
    made: str = ""
    steps: tuple[StepStatus, ...] = ()


@resource("steps.example.com/v1")
class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


JOB = Job(metadata=ObjectMeta("a", "default"))


@define
class Calls:
    """What steps were called with; a step does next what `then` says: raise, or return."""

    made: list[StepRun] = field(factory=list)
    then: dict[str, list[Exception | Result]] = field(factory=dict)

    def step(self, name: str, **options: Any) -> Step[Job]:
        return Step(name, self.call, **options)

    async def call(self, ctx: Context[Job], step: StepRun) -> Result | None:
        self.made.append(step)
        planned = self.then.get(step.name)
        if not planned:
            return None
        what = planned.pop(0)
        if isinstance(what, Exception):
            raise what
        return what

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.made]


def controller(steps: Steps[Job]) -> Controller[Job]:
    async def keep(ctx: Context[Job]) -> Result | None:
        if (pending := await steps.carry_out(ctx)) is not None:
            return pending
        ctx.status(made="all")
        return None

    return Controller(Job, keep, cleanup=steps.undo)


async def until_done(steps: Steps[Job], client: FakeClient, most: int = 20) -> Job:
    """Runs, until one asks for no other."""
    for _ in range(most):
        done = await run_once(controller(steps), JOB, client)
        assert done.error is None, done.error
        if not done.result.wants_run:
            return await client.get(Job, "a", "default")
    raise AssertionError(f"no end after {most} runs")


async def ran(steps: Steps[Job], client: FakeClient) -> tuple[RunReport, list[StepStatus]]:
    done = await run_once(controller(steps), JOB, client)
    found = await client.find(Job, "a", "default")
    return done, [*found.status.steps] if found else []


async def edited(client: FakeClient, **spec: Any) -> None:
    await client.modify(Job, "a", "default", lambda job: job.replace(spec=JobSpec(**spec)))


async def recorded(client: FakeClient, *steps: StepStatus) -> None:
    def change(job: Job) -> Job:
        return job.replace(status=JobStatus(steps=steps))

    await client.modify(Job, "a", "default", change, subresource="status")


async def test_steps_are_carried_out_in_order_each_once_and_then_the_rest_of_the_reconciler() -> None:
    calls, client = Calls(), FakeClient(JOB)
    steps = Steps(Job, [calls.step("one"), calls.step("two"), calls.step("three")])
    job = await until_done(steps, client)
    assert calls.names == ["one", "two", "three"]
    assert [(one.name, one.state, one.round) for one in job.status.steps] == [
        ("one", "Done", 1),
        ("two", "Done", 1),
        ("three", "Done", 1),
    ]
    assert job.status.made == "all"
    assert (await run_once(controller(steps), JOB, client)).writes == []
    assert calls.names == ["one", "two", "three"]


async def test_a_step_has_begun_in_the_status_before_it_is_called() -> None:
    client = FakeClient(JOB)
    seen: list[str] = []

    async def look(ctx: Context[Job], step: StepRun) -> None:
        stored = await client.get(Job, "a", "default", live=True)
        seen.extend(one.state for one in stored.status.steps)
        assert step.token == f"{ctx.object.uid}-look-1"

    done, records = await ran(Steps(Job, [Step("look", look)]), client)
    assert (seen, [one.state for one in records]) == (["Running"], ["Done"])
    assert done.writes == [
        "patch jobs default/a",
        "patch jobs/status default/a",
        "patch jobs/status default/a",
    ]


async def test_what_a_step_reports_is_written_with_its_end_and_read_by_the_next() -> None:
    client = FakeClient(JOB)
    read: list[str] = []

    async def make(ctx: Context[Job], step: StepRun) -> None:
        ctx.status(made="number 7")

    async def use(ctx: Context[Job], step: StepRun) -> None:
        read.append(ctx.object.status.made)

    await until_done(Steps(Job, [Step("make", make), Step("use", use)]), client)
    assert read == ["number 7"]


async def test_a_step_that_waits_is_called_again_as_its_result_asks() -> None:
    calls, client = Calls(then={"one": [Result(requeue_after=30), Result()]}), FakeClient(JOB)
    steps = Steps(Job, [calls.step("one"), calls.step("two")])
    done, records = await ran(steps, client)
    assert (done.result, [one.state for one in records]) == (Result(requeue_after=30), ["Waiting"])
    done, _ = await ran(steps, client)
    assert (done.result, done.writes) == (Result(), [])
    await until_done(steps, client)
    assert calls.names == ["one", "one", "one", "two"]
    assert len({one.token for one in calls.made[:3]}) == 1


async def test_a_step_that_raises_is_called_again_with_its_token_and_says_why() -> None:
    calls, client = Calls(then={"one": [OSError("down"), OSError("down")]}), FakeClient(JOB)
    steps = Steps(Job, [calls.step("one"), calls.step("two")])
    done, records = await ran(steps, client)
    assert (done.retry, records[0].state, records[0].message) == (True, "Failing", "OSError: down")
    assert (await ran(steps, client))[0].writes == []  # the same failure again is no news
    job = await until_done(steps, client)
    assert (job.status.steps[0].state, job.status.steps[0].message) == ("Done", "")
    assert [one.token for one in calls.made[:3]] == [calls.made[0].token] * 3


async def test_a_step_that_fails_for_good_is_called_again_only_for_another_spec_with_another_token() -> None:
    calls, client = Calls(then={"one": [TerminalError("no such size")]}), FakeClient(JOB)
    steps = Steps(Job, [calls.step("one")])
    done, records = await ran(steps, client)
    assert (type(done.error), done.retry) == (TerminalError, False)
    assert (records[0].state, records[0].message) == ("Failed", "TerminalError: no such size")
    done, _ = await ran(steps, client)
    assert isinstance(done.error, TerminalError)
    assert "no such size" in str(done.error)
    assert len(calls.made) == 1
    await edited(client, size=2)
    job = await until_done(steps, client)
    assert [one.token[-5:] for one in calls.made] == ["one-1", "one-2"]
    assert job.status.steps[0].round == 2


async def test_a_later_version_keeps_what_is_done_and_carries_out_what_is_new_in_its_place() -> None:
    calls, client = Calls(), FakeClient(JOB)
    await until_done(Steps(Job, [calls.step("one"), calls.step("two")]), client)
    calls.made.clear()
    later = Steps(Job, [calls.step("two"), calls.step("new"), calls.step("newer")])
    job = await until_done(later, client)
    assert calls.names == ["new", "newer"]
    assert [one.name for one in job.status.steps] == ["two", "new", "newer", "one"]
    await until_done(Steps(Job, [calls.step("one"), calls.step("two")]), client)  # rolled back
    assert calls.names == ["new", "newer"]


# --- values -----------------------------------------------------------------------------------------


def sized(calls: Calls) -> Steps[Job]:
    return Steps(Job, [calls.step("size", once_for=lambda job: job.spec.size)])


async def test_a_step_is_carried_out_once_for_each_value_and_gets_the_one_before() -> None:
    calls, client = Calls(), FakeClient(JOB)
    for size in (1, 2, 2, 1):
        await edited(client, size=size, color=str(size))
        await until_done(sized(calls), client)
    assert [(one.before, one.value) for one in calls.made] == [(None, 1), (1, 2), (2, 1)]
    assert len({one.token for one in calls.made}) == 3


async def test_a_value_that_comes_back_after_an_attempt_for_another_is_carried_out_again() -> None:
    calls, client = Calls(), FakeClient(JOB)
    await until_done(sized(calls), client)
    await edited(client, size=2)
    calls.then["size"] = [OSError("it may have been carried out")]
    await ran(sized(calls), client)
    await edited(client, size=1)
    await until_done(sized(calls), client)
    assert [(one.before, one.value) for one in calls.made] == [(None, 1), (1, 2), (1, 1)]
    assert len({one.token for one in calls.made}) == 3


async def test_a_value_that_comes_back_before_an_attempt_for_another_calls_nothing() -> None:
    calls, client = Calls(), FakeClient(JOB)
    await until_done(sized(calls), client)
    await edited(client, size=2)
    await edited(client, size=1)
    await until_done(sized(calls), client)
    assert len(calls.made) == 1


@pytest.mark.parametrize("value", [{"b": [1, None], "a": "x"}, JobSpec(2), [], "", None, 1.5, True])
async def test_any_plain_value_is_kept_and_compared(value: Any) -> None:
    calls, client = Calls(), FakeClient(JOB)
    steps = Steps(Job, [calls.step("one", once_for=lambda job: value)])
    await until_done(steps, client)
    await until_done(steps, client)
    assert len(calls.made) == 1


async def test_a_value_that_is_too_long_is_refused_with_the_remedy() -> None:
    calls, client = Calls(), FakeClient(JOB)
    done, _ = await ran(Steps(Job, [calls.step("one", once_for=lambda job: "x" * 3000)]), client)
    assert isinstance(done.error, TerminalError)
    assert "return a digest" in str(done.error)
    assert calls.made == []


async def test_the_value_of_a_secret_never_comes_into_the_status() -> None:
    calls = Calls(then={"two": [OSError("refused hunter2hunter2")]})
    secret = Secret(
        metadata=ObjectMeta("key", "default"), data={"key": base64.b64encode(b"hunter2hunter2").decode()}
    )
    client = FakeClient(JOB, secret)

    def steps_of(*steps: Step[Job]) -> Controller[Job]:
        async def keep(ctx: Context[Job]) -> Result | None:
            found.append(await ctx.client.get(Secret, "key", "default"))
            return await Steps(Job, steps).carry_out(ctx)

        return Controller(Job, keep, reads=[Secret])

    found: list[Secret] = []
    leaking = calls.step("one", once_for=lambda job: {"key": "hunter2hunter2"})
    done = await run_once(steps_of(leaking), JOB, client)
    assert "return a digest" in str(done.error)
    await run_once(steps_of(calls.step("two")), JOB, client)
    stored = await client.get(Job, "a", "default")
    assert [one.state for one in stored.status.steps] == ["Failing"]
    assert "hunter2" not in str(stored.status)
    assert found


async def test_steps_without_an_order_do_not_hold_up_each_other() -> None:
    calls, client = Calls(then={"one": [OSError("down")], "two": [Result(requeue_after=9)]}), FakeClient(JOB)
    steps = Steps(Job, [calls.step(name) for name in ("one", "two", "three")], ordered=False)
    done, records = await ran(steps, client)
    assert isinstance(done.error, OSError)
    assert [one.state for one in records] == ["Failing", "Waiting", "Done"]
    await until_done(steps, client)
    assert calls.names == ["one", "two", "three", "one", "two"]


async def test_of_steps_without_an_order_one_that_failed_for_good_stops_no_wait_of_another() -> None:
    calls, client = (
        Calls(then={"one": [TerminalError("no")], "two": [Result(requeue_after=9)]}),
        FakeClient(JOB),
    )
    steps = Steps(Job, [calls.step("one"), calls.step("two")], ordered=False)
    done, _ = await ran(steps, client)
    assert (done.error, done.result.requeue_after) == (None, 9)
    await ran(steps, client)  # the second is done
    done, _ = await ran(steps, client)
    assert isinstance(done.error, TerminalError)


# --- what goes wrong ----------------------------------------------------------------------------------


async def test_a_change_by_others_while_a_step_works_does_not_lose_its_end() -> None:
    client = FakeClient(JOB)
    called: list[str] = []

    async def long(ctx: Context[Job], step: StepRun) -> None:
        called.append(step.token)
        ctx.status(made="it")
        await edited(client, color="blue")

    steps = Steps(Job, [Step("long", long)])
    _, records = await ran(steps, client)
    assert [one.state for one in records] == ["Done"]
    assert (await client.get(Job, "a", "default")).status.made == "it"
    await until_done(steps, client)
    assert len(called) == 1


@pytest.mark.parametrize("again", [False, True])
async def test_an_object_that_goes_while_a_step_works_is_no_failure(again: bool) -> None:
    client = FakeClient(JOB)

    async def long(ctx: Context[Job], step: StepRun) -> None:
        await client.delete(await client.get(Job, "a", "default"))
        if again:
            client.add(JOB)

    async def keep(ctx: Context[Job]) -> Result | None:
        return await Steps(Job, [Step("long", long)]).carry_out(ctx)

    done = await run_once(Controller(Job, keep), JOB, client)
    assert done.error is None
    namesake = await client.find(Job, "a", "default")
    assert namesake is None or namesake.status.steps == ()


async def test_an_interrupted_step_that_must_not_be_repeated_waits_for_a_person() -> None:
    calls, client = Calls(), FakeClient(JOB)
    steps = Steps(Job, [calls.step("mail", interrupted="hold")])
    await recorded(client, StepStatus("mail"))
    done, records = await ran(steps, client)
    assert isinstance(done.error, TerminalError)
    assert "set its state in status.steps to Done, or to Again" in str(done.error)
    assert [one.state for one in records] == ["Unknown"]
    await edited(client, size=2)
    assert isinstance((await ran(steps, client))[0].error, TerminalError)
    assert calls.made == []
    await recorded(client, StepStatus("mail", state="Again"))
    await until_done(steps, client)
    assert [one.token for one in calls.made] == [f"{(await client.get(Job, 'a', 'default')).uid}-mail-2"]


async def test_a_step_that_must_not_be_repeated_is_recorded_as_begun_at_each_attempt() -> None:
    client = FakeClient(JOB)
    seen: list[str] = []

    async def mail(ctx: Context[Job], step: StepRun) -> None:
        stored = await client.get(Job, "a", "default", live=True)
        seen.extend(one.state for one in stored.status.steps)
        if len(seen) == 1:
            raise OSError("not sent")

    steps = Steps(Job, [Step("mail", mail, interrupted="hold")])
    await ran(steps, client)
    await until_done(steps, client)
    assert seen == ["Running", "Running"]


async def test_an_interrupted_step_knows_that_it_was() -> None:
    calls, client = Calls(), FakeClient(JOB)
    await recorded(client, StepStatus("one", round=4))
    await until_done(Steps(Job, [calls.step("one")]), client)
    assert [(one.interrupted, one.token[-5:]) for one in calls.made] == [(True, "one-4")]


@pytest.mark.parametrize("before", [(), (StepStatus("one", state="Waiting"),)])
async def test_nothing_is_called_where_another_replica_has_gone_on(before: tuple[StepStatus, ...]) -> None:
    calls, client = Calls(), FakeClient(JOB)
    await recorded(client, *before)

    async def keep(ctx: Context[Job]) -> Result | None:
        assert ctx.object.status.steps == before
        await recorded(client, StepStatus("one", state="Done"))
        return await Steps(Job, [calls.step("one")]).carry_out(ctx)

    done = await run_once(Controller(Job, keep), JOB, client)
    assert done.retry or done.result == Result(requeue=True)
    assert calls.made == []
    (record,) = (await client.get(Job, "a", "default")).status.steps
    assert record.state == "Done"


# --- undo ---------------------------------------------------------------------------------------------


async def test_steps_that_have_begun_are_undone_in_reverse_when_the_object_goes() -> None:
    calls, undone, client = Calls(then={"three": [OSError("no")]}), Calls(), FakeClient(JOB)
    undone.then["two"] = [OSError("busy"), Result(requeue_after=5), Result()]
    named = ["one", "two", "three", "four"]
    steps = Steps(Job, [calls.step(name, undo=undone.call) for name in named])
    for _ in range(3):
        await ran(steps, client)
    await client.delete(await client.get(Job, "a", "default"))
    done, records = await ran(steps, client)
    assert ([one.name for one in records], undone.names) == (["one", "two"], ["three"])
    done, records = await ran(steps, client)
    assert (str(done.error), records[1].state, records[1].message) == ("busy", "Undoing", "OSError: busy")
    assert (await ran(steps, client))[0].result == Result(requeue_after=5)
    assert (await ran(steps, client))[0].result == Result(requeue=True)
    await ran(steps, client)
    assert undone.names == ["three", *["two"] * 4]
    await ran(steps, client)
    assert await client.find(Job, "a", "default") is None
    assert undone.names[-1] == "one"
    assert undone.made[-1].token == calls.made[0].token


async def test_an_object_does_not_go_because_the_cache_does_not_show_that_a_step_has_begun() -> None:
    undone, client = Calls(), FakeClient(JOB)
    steps = Steps(Job, [Step("one", nothing, undo=undone.call)])

    async def clean_up(ctx: Context[Job]) -> Result | None:
        await recorded(client, StepStatus("one"))  # by the replica that led until now
        return await steps.undo(ctx)

    await run_once(Controller(Job, idle, cleanup=clean_up), JOB, client)
    await client.delete(await client.get(Job, "a", "default"))
    done = await run_once(Controller(Job, idle, cleanup=clean_up), JOB, client)
    assert (done.result, undone.made) == (Result(requeue=True), [])
    await ran(steps, client)
    assert (undone.names, await client.find(Job, "a", "default")) == (["one"], None)


async def test_an_object_whose_steps_never_began_goes_at_once() -> None:
    calls, client = Calls(), FakeClient(JOB)
    steps = Steps(Job, [calls.step("one", undo=calls.call)])

    await run_once(Controller(Job, idle, cleanup=steps.undo), JOB, client)
    await client.delete(await client.get(Job, "a", "default"))
    await ran(steps, client)
    assert (calls.made, await client.find(Job, "a", "default")) == ([], None)


# --- declarations ---------------------------------------------------------------------------------------


async def idle(ctx: Context[Job]) -> None:
    """Do nothing."""


async def nothing(ctx: Context[Job], step: StepRun) -> None:
    """Do nothing."""


async def keep_out(ctx: Context[Job]) -> None:
    """Takes too little."""


def test_a_declaration_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="expected lower case letters"):
        Step("No Name", nothing)
    with pytest.raises(ValueError, match="two steps are named 'one'"):
        Steps(Job, [Step("one", nothing), Step("one", nothing)])
    with pytest.raises(TypeError, match="its status has no field 'progress'"):
        Steps(Job, [Step("one", nothing)], field="progress")
    with pytest.raises(TypeError, match="its status has no field 'steps'"):
        Steps(Secret, [])
    with pytest.raises(TypeError, match=r"carry_out= is called with \(ctx, step\)"):
        Step("one", keep_out)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="interrupted="):
        Step("one", nothing, interrupted="perhaps")  # type: ignore[arg-type]


async def test_a_reconciler_with_steps_is_deterministic() -> None:
    async def keep(ctx: Context[Job]) -> Result | None:
        return await Steps(Job, [Step("one", nothing)]).carry_out(ctx)

    await assert_deterministic(Controller(Job, keep), JOB, FakeClient(JOB))
