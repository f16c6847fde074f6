"""Mistakes around a service outside the cluster: each is found by the sweep, and its twin passes whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconcile import Context, Controller
from reconcile.testing import (
    Apply,
    Broken,
    CrashAfter,
    Delete,
    FailOperation,
    FakeService,
    Fault,
    FaultPlan,
    PartOfBatch,
    RateLimit,
    Refuse,
    Scenario,
    Wait,
    When,
    World,
    explore,
    fuzz,
    replay,
    seeds,
    sweep,
)
from reconcile.testing.faults import ServiceFault, Verb
from tests.testing.rented_accounts import (
    LATE_BILLS,
    LINES,
    SLOW_BILLS,
    STORY,
    WEB,
    Rental,
    batch_checked,
    batch_trusted,
    billing,
    close,
    close_and_wait,
    close_by_number,
    close_if_possible,
    close_known,
    comes_back,
    drop_first_page,
    drop_lines,
    gives_up,
    key_for_each_try,
    looks_first,
    scenario,
    taken_by_itself,
    taken_for_refused,
    takes_accepted_for_done,
    waits_for_the_operation,
    with_a_key,
    without_a_key,
    writes_always,
    writes_if_needed,
)

ROOT = Path(__file__).parents[2]


def lines() -> FakeService:
    return billing(LINES)


def late() -> FakeService:
    return billing(LATE_BILLS)


def slow() -> FakeService:
    return billing(SLOW_BILLS)


def first(verb: Verb) -> When:
    """The first such request to the service."""
    return When(verb, "//billing/*")


NEW = Apply(WEB)
SOON_DELETED = (NEW, Wait(0.3), Delete(WEB))
BUGS: dict[str, tuple[Scenario, Scenario, str]] = {
    "no idempotency key": (scenario(without_a_key, close), scenario(with_a_key, close), "doubles"),
    "another key after an error": (scenario(key_for_each_try, close), scenario(with_a_key, close), "doubles"),
    "an error taken for not done": (
        scenario(taken_for_refused, drop_lines, NEW, outside=lines),
        scenario(taken_by_itself, drop_lines, NEW, outside=lines),
        "end-state",
    ),
    "a read right after a write": (
        scenario(looks_first, close, outside=late),
        scenario(with_a_key, close_by_number, outside=late),
        "doubles",
    ),
    "a limit taken for a refusal": (
        scenario(gives_up, close, *STORY[:2]),
        scenario(comes_back, close, *STORY[:2]),
        "extra-run",
    ),
    "an error taken for deleted": (
        scenario(with_a_key, close_if_possible),
        scenario(with_a_key, close),
        "leaks",
    ),
    "a crash before what was made is written down": (
        scenario(with_a_key, close_known, *SOON_DELETED),
        scenario(with_a_key, close_by_number, *SOON_DELETED),
        "leaks",
    ),
    "a write in each run": (
        scenario(writes_always, close, NEW),
        scenario(writes_if_needed, close, NEW),
        "extra-run",
    ),
    "a batch that was done in part": (
        scenario(batch_trusted, drop_lines, NEW, outside=lines),
        scenario(batch_checked, drop_lines, NEW, outside=lines),
        "end-state",
    ),
    "an operation that fails": (
        scenario(takes_accepted_for_done, close_and_wait, NEW, outside=slow),
        scenario(waits_for_the_operation, close_and_wait, NEW, outside=slow),
        "end-state",
    ),
    "more than one page": (
        scenario(batch_checked, drop_first_page, outside=lines),
        scenario(batch_checked, drop_lines, outside=lines),
        "leaks",
    ),
}


@pytest.mark.rule("sim-services")
@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_around_a_service_is_found_by_the_sweep(name: str) -> None:
    wrong, _, rule = BUGS[name]
    with pytest.raises(Broken) as broken:
        sweep(wrong)
    assert rule in broken.value.rules
    assert len(broken.value.plan.faults) <= 1
    with pytest.raises(Broken):
        replay(wrong, broken.value.plan.to_json())


@pytest.mark.rule("sim-services")
@pytest.mark.parametrize("name", BUGS)
def test_the_same_operator_without_the_mistake_passes_the_whole_sweep(name: str) -> None:
    report = sweep(BUGS[name][1])
    assert report.runs == report.in_full


@pytest.mark.rule("sim-services", "sim-fuzz")
@pytest.mark.parametrize("name", ["an operation that fails", "an error taken for not done"])
def test_random_plans_find_mistakes_around_a_service_too(name: str) -> None:
    wrong, mended, _ = BUGS[name]
    with pytest.raises(Broken):
        fuzz(wrong, seconds=60, most=2000)
    assert fuzz(mended, seconds=50, most=20).runs == 20


@pytest.mark.rule("sim-services")
def test_the_trace_says_what_became_of_the_resources_and_hides_their_secrets() -> None:
    with pytest.raises(Broken) as broken:
        sweep(BUGS["no idempotency key"][0])
    text = str(broken.value)
    assert "POST //billing/accounts -> no answer; the server answered 201" in text
    assert "billing    accounts accounts-1 is created" in text
    assert 'billing    accounts accounts-2: plan: "pro" -> "team"' in text
    assert "accounts-1, accounts-2 of billing/accounts are the same resource" in text
    assert "hunter2" not in text


@pytest.mark.rule("sim-services")
def test_a_lost_answer_of_a_service_is_a_fault_like_any_other() -> None:
    plan = FaultPlan([Fault(first("create"), CrashAfter())])
    run = replay(scenario(with_a_key, close, NEW), plan)
    assert run.world.processes[0].lives == 2
    assert run.world.services[0].resources("accounts").creates == {"default/web": 1}


@pytest.mark.rule("sim-services")
@pytest.mark.parametrize("what", [FailOperation(), PartOfBatch(0), Refuse(429, retry_after=3)])
def test_a_plan_with_faults_of_services_survives_its_text(what: ServiceFault | Refuse) -> None:
    plan = FaultPlan([Fault(first("write"), what)])
    assert FaultPlan.from_json(plan.to_json()) == plan


def test_a_limited_service_makes_callers_wait_and_not_fail() -> None:
    def limited() -> FakeService:
        return billing(rate=RateLimit(2, per=2.0))

    three = [Apply({**NEW.manifest, "metadata": {"name": name}}) for name in ("one", "two", "three")]
    many = [three[0], Wait(0), three[1], Wait(0), three[2]]
    assert seeds(scenario(comes_back, close, *many, outside=limited), 5).runs == 5
    with pytest.raises(Broken):
        seeds(scenario(gives_up, close, *many, outside=limited, invariants=[all_have_one]), 5)


def all_have_one(world: World) -> None:
    assert len(world.outside.resources("accounts").all()) == len(world.objects(type(WEB)))


class Ledger:
    """A stand-in that is no FakeService, and can say what it has."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def state(self) -> dict[str, object]:
        return {"lines": list(self.lines)}


@pytest.mark.rule("sim-services", "sim-end-state")
def test_what_a_stand_in_of_the_author_has_at_the_end_is_compared_too() -> None:
    def notes(ledger: Ledger) -> Controller[Rental]:
        async def keep(ctx: Context[Rental]) -> None:
            if not ctx.object.status.number:
                ledger.lines.append(ctx.object.name)
            ctx.status(number="noted")

        return Controller(Rental, keep, name="notes")

    with pytest.raises(Broken) as broken:
        sweep(Scenario(controllers=notes, outside=Ledger, steps=[NEW]))
    assert broken.value.rules == {"end-state"}
    assert "outside lines: " in str(broken.value)


PROGRAM = """
import hashlib
from tests.testing.test_fake_service_bugs import BUGS, LOST
from reconcile.testing import replay, Broken
try:
    print(hashlib.sha256(str(replay(BUGS["no idempotency key"][0], LOST)).encode()).hexdigest())
except Broken as broken:
    print(hashlib.sha256(str(broken).encode()).hexdigest())
"""
LOST = FaultPlan([Fault(first("create"), CrashAfter())], seed=3)


@pytest.mark.rule("sim-services", "sim-determinism")
def test_a_run_with_a_service_is_the_same_in_every_process() -> None:
    digests = {
        subprocess.check_output(
            [sys.executable, "-c", PROGRAM], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    }
    assert len(digests) == 1


EXPLORED = {
    "no idempotency key": scenario(without_a_key, close, NEW),
    "a crash before what was made is written down": BUGS["a crash before what was made is written down"][0],
}


@pytest.mark.rule("sim-services")
@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("no idempotency key", 0),
        ("no idempotency key", 1),
        ("a crash before what was made is written down", 0),
    ],
)
def test_exploring_all_schedules_finds_mistakes_around_a_service(name: str, lost: int) -> None:
    with pytest.raises(Broken) as broken:
        explore(EXPLORED[name], crashes=1 - lost, lost_answers=lost, seconds=50)
    assert broken.value.rules & {"doubles", "leaks"}
    assert "//billing/accounts" in str(broken.value)


@pytest.mark.rule("sim-services")
def test_an_operator_of_a_service_is_explored_whole_with_a_crash_and_a_lost_answer() -> None:
    report = explore(scenario(with_a_key, close, NEW, Delete(WEB)), crashes=1, lost_answers=1, seconds=50)
    print(f"\nan account, one crash, one lost answer: {report}")
    assert report.exhaustive
