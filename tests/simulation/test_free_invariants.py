"""What the kit checks without being asked: a controller that is right passes, each fault has its name."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reconcile import Context, Controller, Intent, LeaderElection, ObjectMeta
from reconcile.client.object_applies import ObjectApplies
from reconcile.kinds import ConfigMap, Namespace, ServiceAccount
from reconcile.testing import (
    Apply,
    Broken,
    Delete,
    Edit,
    Fault,
    FaultPlan,
    Kill,
    Meanwhile,
    Recreate,
    Refuse,
    Scenario,
    SlowReply,
    Stall,
    Touch,
    Wait,
    When,
    World,
    free_invariants,
    replay,
    seeds,
    sweep,
)
from tests.simulation import toys
from tests.simulation.toys import PLOT, Plot, PlotSpec, scenario


def rules_broken_by(told: Scenario, plan: FaultPlan | None = None) -> frozenset[str]:
    with pytest.raises(Broken) as broken:
        replay(told, plan or FaultPlan())
    return broken.value.rules


@pytest.mark.rule("sim-sweep")
def test_a_correct_controller_passes_the_whole_sweep_and_many_seeds() -> None:
    report = sweep(scenario())
    assert report.runs == report.in_full
    assert report.runs > 30
    seeds(scenario(), 10)


MADE_AND_GONE = (Apply(PLOT), Delete(PLOT))


def case(rule: str, told: Scenario, *, alone: bool = False) -> Any:
    return pytest.param(rule, told, alone, id=rule, marks=pytest.mark.rule(f"sim-{rule}"))


@pytest.mark.parametrize(
    ("rule", "told", "alone"),
    [
        case("converges", scenario(toys.restless, Apply(PLOT)), alone=True),
        case("stays", scenario(toys.polling, Apply(PLOT), quiet_seconds=15)),
        case("extra-run", scenario(toys.asking, Apply(PLOT)), alone=True),
        case("orphans", scenario(toys.orphaning, *MADE_AND_GONE), alone=True),
        case("finalizers", scenario(toys.keep, *MADE_AND_GONE, controller={"cleanup": toys.never_done})),
        case("generations", scenario(toys.ahead, Apply(PLOT)), alone=True),
        case("backs-off", toys.storms()),
        case("requests", scenario(toys.insatiable, Apply(PLOT))),
    ],
)
def test_a_controller_that_is_wrong_in_one_way_breaks_the_invariant_about_it(
    rule: str, told: Scenario, alone: bool
) -> None:
    broken = rules_broken_by(told)
    assert broken == {rule} if alone else rule in broken


@pytest.mark.rule("sim-stays")
def test_a_world_with_delayed_events_has_not_settled() -> None:
    watch = When("watch", "*/plots*")
    assert not replay(scenario(toys.keep, Apply(PLOT)), FaultPlan([Fault(watch, Stall(0, 10.0))] * 3)).failed


@pytest.mark.rule("sim-extra-run", "sim-stays")
@pytest.mark.parametrize("every", [None, 3000.0])
def test_an_unchanged_intent_is_not_applied_however_much_time_passes(every: float | None) -> None:
    long = scenario(
        toys.keep, Apply(PLOT), quiet_seconds=2000, limit_seconds=9000, controller={"every": every}
    )
    assert not replay(long, FaultPlan()).failed


async def never(*_: Any) -> None:
    """That an apply would change nothing."""


@pytest.mark.rule("sim-extra-run")
def test_an_intent_that_is_applied_in_each_run_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectApplies, "_unchanged", never)
    assert "extra-run" in rules_broken_by(scenario(toys.keep, Apply(PLOT)))


@pytest.mark.rule("sim-creates")
def test_a_child_created_twice_after_a_crash_is_reported() -> None:
    with pytest.raises(Broken) as broken:
        sweep(scenario(toys.once_too_often, Apply(PLOT)))
    assert {"creates", "end-state"} <= broken.value.rules
    (fault,) = broken.value.plan.faults
    assert fault.when.verb == "create"


@pytest.mark.rule("sim-end-state")
def test_fields_that_differ_in_every_run_are_not_compared() -> None:
    sweep(scenario(toys.forgets_the_first_state, Apply(PLOT)))


@pytest.mark.rule("sim-end-state")
def test_a_version_that_an_object_names_is_not_compared() -> None:
    async def keep(ctx: Context[Plot]) -> None:
        ctx.status(seen=(await ctx.apply(toys.bed(ctx.object, 0))).metadata.resource_version)

    touched = Fault(When("patch", "*/configmaps/*"), Meanwhile(Touch(PLOT)))  # which moves all later versions
    run = replay(scenario(keep, Apply(PLOT)), FaultPlan([touched]))
    (process,) = run.world.processes
    assert len(process.transport.injected) == 1


@pytest.mark.rule("sim-end-state")
def test_a_final_state_different_from_the_faultless_one_is_reported_with_both_values() -> None:
    async def keep(ctx: Any) -> None:
        """Counts its lives in the world."""
        await ctx.apply(toys.bed(ctx.object, 0))
        if not ctx.object.status.seen:
            ctx.status(seen="restarted" if lives > 1 else "first")

    lives = 0

    def make() -> Any:
        nonlocal lives
        lives += 1
        return toys.Controller(Plot, keep, owns=[toys.ConfigMap], name="plots")

    def forget(world: World) -> None:
        nonlocal lives
        if not world.processes[0].deaths:
            lives = 1

    told = Scenario(controllers=make, steps=[Apply(PLOT)], always=[forget])
    with pytest.raises(Broken, match=r'status.seen is "restarted", without faults "first"'):
        sweep(told)


@pytest.mark.rule("sim-orphans")
@pytest.mark.parametrize("how", ["act", "object", "step", "recreated"])
def test_objects_of_the_kit_the_server_or_a_user_are_not_orphans(how: str) -> None:
    """A controller that owns namespaces and accounts answers for its own, not for all there are."""

    async def keep(ctx: Context[Plot]) -> None:
        await ctx.apply(Intent(Namespace, metadata=ObjectMeta(f"of-{ctx.object.name}")))

    async def clean(ctx: Context[Plot]) -> None:
        made = await ctx.client.find(Namespace, f"of-{ctx.object.name}")
        if made is not None:
            await ctx.client.delete(made)

    plot = Plot(metadata=ObjectMeta("a", "elsewhere"))
    path = "/apis/toys.example.com/v1/namespaces/elsewhere/plots/a"

    async def make(world: World) -> None:
        await world.user.create(Namespace(metadata=ObjectMeta("by-hand")))

    steps: dict[str, Sequence[Any]] = {
        "act": [Apply(plot), Delete(path)],
        "object": [Delete(path)],
        "step": [Apply(plot), make, Delete(path)],
        "recreated": [Apply(plot), Recreate("/api/v1/namespaces/there"), Delete(path)],
    }
    told = Scenario(
        controllers=lambda: [
            Controller(Plot, keep, owns=[Namespace, ServiceAccount], cleanup=clean, name="plots")
        ],
        steps=steps[how],
        objects=[Namespace(metadata=ObjectMeta("there")), *([plot] if how == "object" else [])],
    )
    sweep(told, most=5)


@pytest.mark.rule("sim-declared")
def test_an_undeclared_write_is_reported_even_if_the_controller_swallows_the_refusal() -> None:
    async def keep(ctx: Any) -> None:
        if not ctx.object.metadata.labels:
            with contextlib.suppress(Exception):
                await ctx.client.raw.merge(ctx.object, {"metadata": {"labels": {"seen": "yes"}}})

    told = scenario(keep, Apply(PLOT))
    with pytest.raises(Broken, match=r'writes= of controller plots lacks Write\(Plot, \("patch",\)\)'):
        sweep(told)
    assert rules_broken_by(told) == {"declared"}
    sweep(scenario(keep, Apply(PLOT), without=["declared"]), most=2)


# --- leaders ------------------------------------------------------------------------------------------


def led(**options: Any) -> Scenario:
    return scenario(replicas=2, leader_election=LeaderElection("plots"), **options)


@pytest.mark.rule("sim-leader")
def test_of_two_managers_only_the_leader_writes_even_if_one_dies_or_is_late() -> None:
    replay(led(), FaultPlan(acts=[Apply(PLOT), Kill(), Edit(PLOT, {"spec": {"crop": "oats"}}), Kill(2)]))
    renewals = When("update", "*/leases/*", nth=2, times=3, process=1)
    replay(led(), FaultPlan([Fault(renewals, SlowReply(30))]))


@pytest.mark.rule("sim-leader")
def test_a_write_without_holding_the_lease_is_reported() -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/plots"
    taken = Edit(lease, {"spec": {"holderIdentity": "somebody"}})
    acts = [Apply(PLOT), taken, Wait(0), Edit(PLOT, {"spec": {"crop": "oats"}})]
    assert "leader" in rules_broken_by(led(), FaultPlan(acts=acts))


@pytest.mark.rule("sim-own")
def test_user_invariants_are_checked_at_rest_and_always_invariants_after_every_change() -> None:
    def never_more_than_one(world: World) -> None:
        beds = world.objects(toys.ConfigMap)
        assert len(beds) < 2, f"{len(beds)} beds"

    assert rules_broken_by(scenario(invariants=[never_more_than_one])) == {"never_more_than_one"}
    edits = [Apply(PLOT), Edit(PLOT, {"spec": {"size": 1}})]
    passing = scenario(toys.keep, *edits, always=[never_more_than_one])
    assert rules_broken_by(passing) == {"never_more_than_one"}


def test_a_world_whose_last_request_failed_is_not_at_rest_until_it_was_quiet_after_that() -> None:
    def every_plot_has_a_bed(world: World) -> None:
        assert len(world.objects(ConfigMap)) == len(world.objects(Plot))

    east = Plot(metadata=ObjectMeta("east"), spec=PlotSpec(1))
    waits = scenario(toys.keep, objects=[east], quiet_seconds=2.4, invariants=[every_plot_has_a_bed])
    # A watch is refused at once, and the list that follows after 1.5 s; the next one comes after 3.8 s.
    replay(waits, FaultPlan([Fault(When("*", "*/configmaps*", times=2), Refuse(500))], [Wait(0)]))


def test_a_built_in_invariant_is_one_function_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_rye(world: World) -> Iterator[str]:
        for plot in world.objects(Plot):
            if plot.spec.crop == "rye":
                yield f"{plot.name} grows rye"

    monkeypatch.setitem(free_invariants.AT_REST, "no-rye", no_rye)  # type: ignore[arg-type]
    assert rules_broken_by(scenario()) == {"no-rye"}
    replay(scenario(without=["no-rye"]), FaultPlan())


def test_the_page_on_simulation_lists_every_built_in_invariant() -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/simulation.md").read_text()
    assert [name for name in free_invariants.names() if f"`{name}`" not in page] == []


def test_an_invariant_can_be_left_out_and_an_unknown_one_is_refused() -> None:
    replay(scenario(toys.ahead, Apply(PLOT), without=["generations"]), FaultPlan())
    with pytest.raises(ValueError, match="unknown invariants: generation;"):
        scenario(without=["generation"])


async def say_first_what_is_new(ctx: Context[Plot]) -> None:
    """Lists its conditions in another order if it finds its bed made."""
    found = await ctx.owned(ConfigMap)
    await ctx.apply(toys.bed(ctx.object, 0))
    for name in ("Ready", "Sown") if found else ("Sown", "Ready"):
        ctx.condition(name, True, reason="Done")


@pytest.mark.rule("sim-end-state")
def test_the_order_of_conditions_makes_no_difference() -> None:
    report = sweep(scenario(say_first_what_is_new, Apply(PLOT)))
    assert report.runs == report.in_full
