"""The operator's tests: its decisions, single runs, and then every single fault."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from cronjobs import CronJob, CronJobSpec, Verdict, cron_jobs, decide

from reconcile import ObjectMeta
from reconcile.errors import Invalid, TerminalError
from reconcile.kinds import Job, JobSpec
from reconcile.testing import (
    Apply,
    Delete,
    Edit,
    FakeClient,
    RunReport,
    Scenario,
    Wait,
    World,
    run_once,
    sweep,
)

RUNS = int(os.environ.get("SWEEP_RUNS", "25")) or None  # of the sweep; 0: all
POD = {"containers": [{"name": "main", "image": "report:1"}], "restartPolicy": "Never"}
SPEC = CronJobSpec("*/10 * * * *", JobSpec(template={"spec": POD}))
REPORT = CronJob(metadata=ObjectMeta("report", "default"), spec=SPEC)
MINUTE = timedelta(minutes=1)
DUE = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON = "2026-01-01T12:00:00Z"


def ended(how: str) -> dict[str, Any]:
    """As the API server demands it: what decided the end comes first, and an end has its times."""
    times = {"startTime": NOON, "completionTime": NOON} if how == "Complete" else {"startTime": NOON}
    decided = "SuccessCriteriaMet" if how == "Complete" else "FailureTarget"
    conditions = [{"type": kind, "status": "True"} for kind in (decided, how)]
    return {"status": {**times, "conditions": conditions}}


async def minutes_later(client: FakeClient, minutes: float) -> RunReport:
    client.clock.advance(60 * minutes)
    done = await run_once(cron_jobs, REPORT, client)
    assert done.undeclared == []  # `reconcile manifests` allows all that it wrote
    return done


async def all_end(client: FakeClient, how: str) -> None:
    for job in await client.list(Job):
        if not job.finished:
            await client.raw.merge(job, ended(how), subresource="status")


async def names(client: FakeClient) -> list[str]:
    return sorted(job.name for job in await client.list(Job))


def a_cluster(**spec: Any) -> FakeClient:
    """A client with a CronJob that was created at 00:00."""
    return FakeClient(REPORT.replace(spec=evolve(SPEC, **spec)))


@pytest.mark.parametrize(
    ("spec", "last", "late", "running", "verdict"),
    [
        (SPEC, DUE, 0, False, "OnSchedule"),
        (SPEC, DUE - 10 * MINUTE, 0, False, "Due"),
        (SPEC, DUE - 10 * MINUTE, 9, True, "Due"),
        (evolve(SPEC, suspend=True), DUE - 10 * MINUTE, 0, False, "Suspended"),
        (evolve(SPEC, concurrency="Forbid"), DUE - 10 * MINUTE, 0, True, "Blocked"),
        (evolve(SPEC, concurrency="Forbid"), DUE - 10 * MINUTE, 0, False, "Due"),
        (evolve(SPEC, starting_deadline=5 * MINUTE), DUE - 10 * MINUTE, 5, False, "Due"),
        (evolve(SPEC, starting_deadline=5 * MINUTE), DUE - 10 * MINUTE, 6, False, "TooLate"),
    ],
)
def test_the_verdict_on_a_due_job(
    spec: CronJobSpec, last: datetime, late: int, running: bool, verdict: Verdict
) -> None:
    assert decide(spec, DUE, last, DUE + late * MINUTE, running=running) == verdict


async def test_nothing_starts_before_its_time_and_then_one_job_does() -> None:
    client = a_cluster()
    done = await minutes_later(client, 0)
    assert done.writes == ["patch cronjobs/status default/report"]
    assert done.result.requeue_after == pytest.approx(600, abs=1)
    done = await minutes_later(client, 10)
    assert done.writes == ["apply jobs default/report-20260101-0010", "patch cronjobs/status default/report"]
    assert (await client.get(CronJob, "report", "default")).status.active == ("report-20260101-0010",)
    assert (await minutes_later(client, 1)).writes == []


async def test_after_several_missed_times_only_the_last_job_starts() -> None:
    client = a_cluster()
    await minutes_later(client, 45)
    assert await names(client) == ["report-20260101-0040"]


async def test_a_job_past_its_deadline_is_skipped_and_the_condition_says_so() -> None:
    client = a_cluster(starting_deadline=2 * MINUTE)
    done = await minutes_later(client, 15)
    assert await names(client) == []
    assert done.conditions["OnSchedule"]["reason"] == "TooLate"
    done = await minutes_later(client, 6)
    assert await names(client) == ["report-20260101-0020"]
    assert done.conditions["OnSchedule"]["status"] == "True"


async def test_with_forbid_the_second_job_starts_when_the_first_has_ended() -> None:
    client = a_cluster(concurrency="Forbid")
    await minutes_later(client, 10)
    done = await minutes_later(client, 10)
    assert done.conditions["OnSchedule"]["reason"] == "Blocked"
    await all_end(client, "Complete")
    await minutes_later(client, 1)
    assert await names(client) == ["report-20260101-0010", "report-20260101-0020"]


async def test_with_replace_a_running_job_is_deleted_for_the_next() -> None:
    client = a_cluster(concurrency="Replace")
    await minutes_later(client, 10)
    done = await minutes_later(client, 10)
    assert done.writes[:2] == [
        "delete jobs default/report-20260101-0010",
        "apply jobs default/report-20260101-0020",
    ]
    assert (await client.get(CronJob, "report", "default")).status.active == ("report-20260101-0020",)


async def test_the_newest_finished_jobs_are_kept_up_to_each_limit() -> None:
    client = a_cluster(keep_succeeded=2, keep_failed=1)
    for how in ("Failed", "Complete", "Failed", "Complete", "Complete"):
        await minutes_later(client, 10)
        await all_end(client, how)
    await minutes_later(client, 0)
    assert await names(client) == [f"report-20260101-00{minute}" for minute in (30, 40, 50)]


async def test_a_job_that_is_not_kept_is_not_started_again() -> None:
    client = a_cluster(keep_succeeded=0)
    client.clock.advance(600)
    client.fail("patch", "*/cronjobs/report/status", 500)
    assert (await run_once(cron_jobs, REPORT, client)).retry  # the Job is there, and no status that says so
    await all_end(client, "Complete")
    assert (await minutes_later(client, 0)).writes == ["patch cronjobs/status default/report"]
    assert (await minutes_later(client, 0)).writes == ["delete jobs default/report-20260101-0010"]
    assert (await minutes_later(client, 0)).writes == []


async def test_an_invalid_schedule_is_a_condition_and_is_not_retried() -> None:
    client = a_cluster(schedule="every day")
    done = await minutes_later(client, 0)
    assert isinstance(done.error, TerminalError)
    assert done.conditions["OnSchedule"]["reason"] == "NoSchedule"


async def test_a_name_that_leaves_no_room_for_the_time_in_a_jobs_name_is_refused() -> None:
    with pytest.raises(Invalid, match="size"):
        FakeClient(REPORT.with_metadata(name="r" * 50))


async def jobs_end(world: World) -> None:
    """Simulates the controller that runs Jobs."""
    for job in world.objects(Job):
        if not job.finished:
            await world.act(Edit(job, ended("Complete"), "status"))


def one_job_at_a_time(world: World) -> None:
    assert sum(not job.finished for job in world.objects(Job)) <= 1


def history_is_limited(world: World) -> None:
    assert sum(job.finished for job in world.objects(Job)) <= 2


def test_a_cron_job_survives_every_fault() -> None:
    careful = REPORT.replace(spec=evolve(SPEC, concurrency="Forbid", keep_succeeded=1))
    scenario = Scenario(
        controllers=lambda: cron_jobs,
        steps=[
            Apply(careful),
            Wait(700),
            jobs_end,
            Wait(600),
            jobs_end,
            Wait(600),
            jobs_end,
            Delete(careful),
        ],
        always=[one_job_at_a_time],
        invariants=[history_is_limited],
    )
    print(sweep(scenario, most=RUNS))
