"""What simulated workloads do next, step by step and in full."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconcile import ObjectMeta
from reconcile.kinds import JobSpec, Pod, PodCondition, PodStatus
from reconcile.simulation.workload_steps import (
    REVISION,
    JobPlan,
    RolloutSizes,
    StatefulSetMove,
    active_of,
    next_move,
    next_sizes,
    plan_job,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(
    name: str,
    phase: str = "Running",
    *,
    ready: bool = True,
    going: bool = False,
    revision: str = "r",
    age: float = 0,
) -> Pod:
    metadata = ObjectMeta(
        name,
        "default",
        labels={REVISION: revision},
        creation_timestamp=NOW - timedelta(seconds=age),
        deletion_timestamp=NOW if going else None,
    )
    conditions = (PodCondition("Ready", "True"),) if ready and phase == "Running" else ()
    return Pod(metadata=metadata, status=PodStatus(phase=phase, conditions=conditions))


@pytest.mark.rule("workloads-deployment")
@pytest.mark.parametrize(
    ("wanted", "new", "ready", "old", "sizes"),
    [
        (3, 0, 0, 0, RolloutSizes(3, 0)),
        (3, 5, 5, 0, RolloutSizes(3, 0)),
        (3, 0, 0, 3, RolloutSizes(1, 3)),
        (3, 1, 0, 3, RolloutSizes(1, 3)),
        (3, 1, 1, 3, RolloutSizes(1, 2)),
        (3, 1, 1, 2, RolloutSizes(2, 2)),
        (3, 3, 2, 1, RolloutSizes(3, 1)),
        (3, 3, 3, 1, RolloutSizes(3, 0)),
        (3, 0, 0, 5, RolloutSizes(0, 3)),
        (0, 0, 0, 2, RolloutSizes(0, 0)),
        (1, 3, 3, 2, RolloutSizes(1, 0)),
    ],
)
def test_a_rollout_takes_one_step_at_a_time(
    wanted: int, new: int, ready: int, old: int, sizes: RolloutSizes
) -> None:
    assert next_sizes(wanted, new=new, new_ready=ready, old=old) == sizes


ZERO, ONE, TWO = pod("web-0"), pod("web-1"), pod("web-2")
TEN = pod("web-10")
OLD_ZERO, OLD_ONE = pod("web-0", revision="old"), pod("web-1", revision="old")
FAILED = pod("web-0", "Failed", age=4)
LONG_FAILED = pod("web-0", "Failed", age=10)
OTHER = pod("web-x")
ALMOST = pod("web-0", "Failed", age=9.5)


@pytest.mark.rule("workloads-statefulset")
@pytest.mark.parametrize(
    ("replicas", "pods", "move"),
    [
        (2, [], StatefulSetMove(create=0)),
        (2, [ZERO], StatefulSetMove(create=1)),
        (2, [ONE], StatefulSetMove(create=0)),
        (2, [ZERO, ONE], StatefulSetMove()),
        (2, [pod("web-0", ready=False)], StatefulSetMove()),
        (2, [pod("web-0", going=True)], StatefulSetMove()),
        (2, [pod("web-0", "Failed", going=True, age=60)], StatefulSetMove()),
        (2, [FAILED], StatefulSetMove(after=6.0)),
        (2, [ALMOST], StatefulSetMove(after=0.5)),
        (2, [LONG_FAILED], StatefulSetMove(delete=LONG_FAILED)),
        (1, [ZERO, ONE, TEN, TWO], StatefulSetMove(delete=TEN)),
        (1, [ZERO, OTHER, ONE], StatefulSetMove(delete=ONE)),
        (1, [ZERO, OTHER], StatefulSetMove(delete=OTHER)),
        (1, [ZERO, ONE, pod("web-2", going=True)], StatefulSetMove()),
        (2, [OLD_ZERO, OLD_ONE], StatefulSetMove(delete=OLD_ONE)),
        (2, [OLD_ZERO, ONE], StatefulSetMove(delete=OLD_ZERO)),
        (1, [OLD_ZERO, OLD_ONE], StatefulSetMove(delete=OLD_ONE)),
        (0, [ZERO], StatefulSetMove(delete=ZERO)),
        (0, [], StatefulSetMove()),
    ],
)
def test_a_stateful_set_takes_one_step_at_a_time(
    replicas: int, pods: list[Pod], move: StatefulSetMove
) -> None:
    assert next_move("web", replicas, "r", pods, NOW) == move


A, B = pod("a", age=5), pod("b", age=1)
WENT = pod("gone", "Running", going=True)
DONE, FELL = pod("done", "Succeeded"), pod("fell", "Failed", age=3)
FELLS = [pod(f"fell-{number}", "Failed", age=100 * number + 5) for number in range(7)]


@pytest.mark.rule("workloads-job")
@pytest.mark.parametrize(
    ("spec", "pods", "plan"),
    [
        ({}, [], JobPlan(0, 0, 0, create=1)),
        ({}, [A], JobPlan(1, 0, 0)),
        ({}, [WENT], JobPlan(0, 0, 0, create=1)),
        ({}, [DONE], JobPlan(0, 1, 0, ended="Complete", why="CompletionsReached")),
        ({}, [DONE, A], JobPlan(1, 1, 0)),
        ({}, [FELL, A], JobPlan(1, 0, 1)),
        ({"parallelism": 3}, [A], JobPlan(1, 0, 0, create=2)),
        ({"parallelism": 1}, [A, B], JobPlan(2, 0, 0, delete=(B,))),
        ({"parallelism": 0}, [], JobPlan(0, 0, 0)),
        ({"completions": 3, "parallelism": 2}, [DONE], JobPlan(0, 1, 0, create=2)),
        ({"completions": 2, "parallelism": 2}, [DONE, A, B], JobPlan(2, 1, 0, delete=(B,))),
        (
            {"completions": 1, "parallelism": 2},
            [DONE, A, B],
            JobPlan(0, 1, 0, delete=(B, A), ended="Complete", why="CompletionsReached"),
        ),
        ({"suspend": True}, [A, B], JobPlan(2, 0, 0, delete=(B, A))),
        ({}, [FELL], JobPlan(0, 0, 1, after=7.0)),
        ({"parallelism": 2}, [FELL, A], JobPlan(1, 0, 1, after=7.0)),
        ({}, [pod("fell", "Failed", age=9.5)], JobPlan(0, 0, 1, after=0.5)),
        ({}, [pod("fell", "Failed", age=10)], JobPlan(0, 0, 1, create=1)),
        ({}, FELLS[:2], JobPlan(0, 0, 2, after=15.0)),
        ({}, FELLS[:6], JobPlan(0, 0, 6, after=295.0)),
        ({}, FELLS, JobPlan(0, 0, 7, ended="Failed", why="BackoffLimitExceeded")),
        ({"backoff_limit": 1}, [FELL], JobPlan(0, 0, 1, after=7.0)),
        (
            {"backoff_limit": 0},
            [FELL, A, B],
            JobPlan(0, 0, 1, delete=(B, A), ended="Failed", why="BackoffLimitExceeded"),
        ),
    ],
)
def test_a_job_takes_one_step_at_a_time(spec: dict[str, Any], pods: list[Pod], plan: JobPlan) -> None:
    assert plan_job(JobSpec(template={}, **spec), pods, NOW) == plan


def test_the_pod_with_the_highest_ordinal_is_removed_first_whatever_dashes_the_name_has() -> None:
    nine, ten = pod("my-web-9"), pod("my-web-10")
    assert next_move("my-web", 0, "r", [ten, nine], NOW) == StatefulSetMove(delete=ten)


def test_terminating_and_finished_pods_are_not_active() -> None:
    assert active_of([A, WENT, DONE, FELL, B]) == [A, B]
