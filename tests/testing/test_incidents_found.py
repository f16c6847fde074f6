"""Seven reconcilers with a fault that real ones had: each is found, by a minimal plan, and its twin holds.

A twin is the same file with a few lines changed. Five are incidents that operators had; one forgets in a
restart what it expects; one wakes itself by a time in its status.
"""

import difflib
import functools
import importlib
import time
from pathlib import Path
from types import ModuleType

import pytest

from reconcile.testing import (
    Broken,
    CrashAfter,
    Fault,
    FaultPlan,
    Meanwhile,
    ScenarioReport,
    Touch,
    When,
    replay,
    sweep,
)

HERE = Path(__file__).parent
MOST_LINES = 10

# The invariant by which each is found, and how many things must go wrong at most to show it.
FOUND: dict[str, tuple[str, int]] = {
    "two_existences": ("one_pod_at_most_is_deleted", 0),
    "stale_update": ("the_dear_group_is_left_alone", 1),
    "missing_scale": ("step", 0),
    "unknown_metric": ("what_runs_under_load_is_not_taken_away", 1),
    "copy_loop": ("extra-run", 0),
    "lost_expectation": ("one_pod_at_most_is_deleted", 1),
    "status_timestamp": ("extra-run", 0),
}


@functools.cache
def found(name: str) -> tuple[Broken, float]:
    """What a sweep of the faulty one finds, and the seconds that it took."""
    began = time.perf_counter()
    with pytest.raises(Broken) as caught:
        sweep(module("faulty", name).scenario)
    return caught.value, time.perf_counter() - began


def module(kind: str, name: str) -> ModuleType:
    return importlib.import_module(f"tests.testing.{kind}.{name}")


def test_every_pair_is_tried() -> None:
    for kind in ("faulty", "mended"):
        assert {file.stem for file in (HERE / kind).glob("*.py")} == set(FOUND)


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.rule("kit-incidents")
def test_a_twin_is_at_most_ten_lines_apart(name: str) -> None:
    faulty, mended = ((HERE / kind / f"{name}.py").read_text().splitlines() for kind in ("faulty", "mended"))
    apart = [line for line in difflib.ndiff(faulty, mended) if line[0] in "+-"]
    assert 0 < len(apart) <= MOST_LINES


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.rule("kit-incidents")
def test_the_sweep_finds_the_fault_and_shrinks_it_to_one_thing_or_none(name: str) -> None:
    broken, seconds = found(name)
    assert seconds < 10
    rule, most = FOUND[name]
    assert rule in broken.rules
    assert len(broken.plan.faults) <= most
    assert "What is wrong:" in str(broken)


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.rule("kit-incidents")
def test_the_sweep_finds_nothing_on_the_mended_twin(name: str) -> None:
    report: ScenarioReport = sweep(module("mended", name).scenario)
    print(f"{name}: {report}")
    assert report.runs == report.in_full


@pytest.mark.parametrize("name", FOUND)
def test_a_plan_that_was_found_breaks_it_again_and_does_not_break_the_twin(name: str) -> None:
    broken, _ = found(name)
    with pytest.raises(Broken) as again:
        replay(module("faulty", name).scenario, broken.plan.to_json())
    assert str(again.value) == str(broken)
    assert not replay(module("mended", name).scenario, broken.plan).failed


def test_what_is_remembered_in_memory_alone_takes_a_crash_to_show() -> None:
    assert not replay(module("faulty", "lost_expectation").scenario, FaultPlan()).failed
    (fault,) = found("lost_expectation")[0].plan.faults
    assert isinstance(fault.what, CrashAfter)
    assert fault.when.verb == "delete"


def test_a_group_that_somebody_touches_just_before_a_resize_is_not_held_to_be_full() -> None:
    plan = FaultPlan([Fault(When("write", "*/nodegroups/cheap"), Meanwhile(Touch()))])
    with pytest.raises(Broken, match="dear nodes, and the cheap group has room"):
        replay(module("faulty", "stale_update").scenario, plan)
    assert not replay(module("mended", "stale_update").scenario, plan).failed
