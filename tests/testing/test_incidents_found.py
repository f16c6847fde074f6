"""Seven reconcilers with a fault that real ones had: a sweep finds each, and nothing in its mended form.

Five are incidents that operators had; one loses what it expects when it restarts; one wakes itself by a time
in its status. `mending` replaces the lines that are wrong.
"""

import functools
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from attrs import field, frozen

from reconcile.testing import (
    Broken,
    CrashAfter,
    Fault,
    FaultPlan,
    Meanwhile,
    Scenario,
    Touch,
    When,
    replay,
    sweep,
)

HERE = Path(__file__).parent / "incidents"


@frozen
class Incident:
    """The invariant that finds it, how many faults it takes at most, and what mends it.

    Its reconciler is that of `source` with `change`, or has a file of its own.
    """

    rule: str
    faults: int
    mending: dict[str, str] = field(kw_only=True)
    source: str = ""
    change: dict[str, str] = field(factory=dict)


WITHOUT_TERMINATING = "pods = [pod for pod in await ctx.owned(Pod) if not pod.terminating]"
INCIDENTS = {
    "two_existences": Incident(
        "one_pod_at_most_is_deleted",
        0,
        mending={
            "pods = await ctx.owned(Pod)": WITHOUT_TERMINATING,
            "pod.uid == expected and not pod.terminating for": "pod.uid == expected for",
            "min((pod for pod in pods if not pod.terminating), ": "min(pods, ",
        },
    ),
    "stale_update": Incident(
        "the_dear_group_is_left_alone",
        1,
        mending={
            "import ApiError": "import Forbidden",
            "update(group.replace(spec=NodeGroupSpec(group.spec.price, replicas)))": (
                'merge(group, {"spec": {"replicas": replicas}})'
            ),
            "except ApiError:": "except Forbidden:",
        },
    ),
    "missing_scale": Incident(
        "step",
        0,
        mending={
            "from reconcile.kinds": "from reconcile.models import Scale\nfrom reconcile.kinds",
            '@resource("kit.example.com/v1")': '@resource("kit.example.com/v1", scale=Scale())',
        },
    ),
    "unknown_metric": Incident(
        "what_runs_under_load_is_not_taken_away",
        1,
        mending={
            "meter.spec.load if meter is not None else 0.0": "meter.spec.load if meter is not None else None",
            "    ctx.status(replicas": "    if load is not None:\n        ctx.status(replicas",
        },
    ),
    "copy_loop": Incident("converges", 0, mending={"chart({})": "chart(found)"}),
    # What was deleted is remembered in memory alone and counted until it is gone: a restart forgets it.
    "lost_expectation": Incident(
        "one_pod_at_most_is_deleted",
        1,
        mending={"pods = await ctx.owned(Pod)": WITHOUT_TERMINATING},
        source="two_existences",
        change={"pod.uid == expected and not pod.terminating for": "pod.uid == expected for"},
    ),
    "status_timestamp": Incident(
        "converges",
        0,
        mending={"    ctx.status(": "    if check.status.target != check.spec.target:\n        ctx.status("},
    ),
}


@functools.cache
def found(name: str) -> tuple[Broken, float]:
    """What a sweep of the faulty form finds, and the seconds that it took."""
    began = time.perf_counter()
    with pytest.raises(Broken) as caught:
        sweep(faulty(name))
    return caught.value, time.perf_counter() - began


@functools.cache
def scenario_of(name: str, *, mended: bool) -> Scenario:
    incident = INCIDENTS[name]
    text = (HERE / f"{incident.source or name}.py").read_text()
    for wrong, right in {**incident.change, **(incident.mending if mended else {})}.items():
        assert text.count(wrong) == 1, wrong
        text = text.replace(wrong, right)
    module = ModuleType(f"tests.testing.incidents.{name}{'_mended' if mended else ''}")
    # attrs and the models look up the module of a class by its name.
    sys.modules[module.__name__] = module
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    scenario: Scenario = module.scenario
    return scenario


faulty = functools.partial(scenario_of, mended=False)
mended = functools.partial(scenario_of, mended=True)


def test_every_incident_file_is_tried() -> None:
    assert {file.stem for file in HERE.glob("*.py")} == {
        incident.source or name for name, incident in INCIDENTS.items()
    }


@pytest.mark.parametrize("name", INCIDENTS)
@pytest.mark.rule("kit-incidents")
def test_the_sweep_finds_the_fault_and_shrinks_it_to_one_fault_at_most(name: str) -> None:
    broken, seconds = found(name)
    assert seconds < 10
    assert INCIDENTS[name].rule in broken.rules
    assert len(broken.plan.faults) <= INCIDENTS[name].faults
    assert "What is wrong:" in str(broken)


@pytest.mark.parametrize("name", INCIDENTS)
@pytest.mark.rule("kit-incidents")
def test_the_sweep_finds_nothing_in_the_corrected_form(name: str) -> None:
    report = sweep(mended(name))
    print(f"{name}: {report}")
    assert report.runs == report.in_full


@pytest.mark.parametrize("name", INCIDENTS)
def test_a_found_plan_breaks_the_faulty_form_again_and_not_the_corrected_one(name: str) -> None:
    broken, _ = found(name)
    with pytest.raises(Broken) as again:
        replay(faulty(name), broken.plan.to_json())
    assert str(again.value) == str(broken)
    assert not replay(mended(name), broken.plan).failed


def test_state_kept_only_in_memory_is_lost_only_by_a_crash() -> None:
    assert not replay(faulty("lost_expectation"), FaultPlan()).failed
    (fault,) = found("lost_expectation")[0].plan.faults
    assert isinstance(fault.what, CrashAfter)
    assert fault.when.verb == "delete"


def test_a_group_touched_just_before_a_resize_does_not_count_as_full() -> None:
    plan = FaultPlan([Fault(When("write", "*/nodegroups/cheap"), Meanwhile(Touch()))])
    with pytest.raises(Broken, match="dear nodes, and the cheap group has room"):
        replay(faulty("stale_update"), plan)
    assert not replay(mended("stale_update"), plan).failed
