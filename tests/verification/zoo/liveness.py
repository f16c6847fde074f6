"""Controllers without a fault in their writes that never come to rest, or never get there."""

from reconcile import Context, Controller, Result
from reconcile.kinds import ConfigMap, Pod
from reconcile.simulation import Delays
from reconcile.testing import (
    Apply,
    Fault,
    FaultPlan,
    Refuse,
    Scenario,
    When,
    leads_to,
    ready_or_failed,
    spec_changed,
)
from tests.verification.zoo.kinds import DB, Cluster, becomes, config_map, pod, scenario
from tests.verification.zoo.patterns import BugPattern


def fight_over_a_field(mended: bool) -> Scenario:
    def make() -> list[Controller[Cluster]]:
        def keeper(name: str, mode: str) -> Controller[Cluster]:
            async def keep(ctx: Context[Cluster]) -> None:
                key = name if mended else "mode"
                await ctx.apply(config_map(ctx, "config", **{key: mode}))

            manager = f"{name}.zoo.example.com"
            return Controller(Cluster, keep, owns=[ConfigMap], name=name, field_manager=manager)

        return [keeper("speed", "fast"), keeper("thrift", "slow")]

    return Scenario(controllers=make, steps=[Apply(DB)])


def woken_by_its_own_status(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        if mended:
            ctx.status(replicas=ctx.object.spec.replicas)
        else:
            ctx.status(replicas=ctx.object.status.replicas % 7 + 1)

    return scenario(keep, controller={"wakes": lambda old, new: True})


def waits_for_what_it_does_not_watch(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        made = await ctx.client.find(Pod, f"{ctx.object.name}-0", ctx.object.namespace)
        if made is None:
            await ctx.apply(pod(ctx, 0))
        ctx.status(phase="ready" if made is not None and made.ready else "waiting")

    cached = {"owns": [Pod]} if mended else {"controller": {"reads": [Pod], "writes": [Pod]}}
    return scenario(keep, **cached, nodes=Delays())


def never_tries_again(mended: bool) -> Scenario:
    def make() -> Controller[Cluster]:
        async def keep(ctx: Context[Cluster]) -> Result | None:
            try:
                await ctx.apply(config_map(ctx, "config", version=ctx.object.spec.version))
            except Exception as error:
                ctx.log.warning("the configuration could not be written", error=str(error))
                if mended:
                    raise
            return None

        return Controller(Cluster, keep, owns=[ConfigMap], name="clusters")

    return Scenario(controllers=make, steps=[Apply(DB), becomes(version="2")])


def gives_up_without_a_word(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        ctx.status(observed_generation=ctx.object.metadata.generation)
        if ctx.object.spec.version == "1":
            ctx.condition("Ready", True, reason="Configured")
            ctx.remove_condition("Stalled")
        else:
            ctx.condition("Ready", False, reason="Waiting")
            if mended:
                ctx.condition("Stalled", True, reason="UnknownVersion")

    owed = [leads_to(spec_changed(Cluster), ready_or_failed)]
    return scenario(keep, Apply(DB), becomes(version="2"), obligations=owed)


BUGS = (
    BugPattern(
        name="fight-over-a-field",
        bug="two controllers want another value of one field each, and write it for ever",
        family="liveness",
        sources=(),
        scenario=fight_over_a_field,
        found_by="one run",
    ),
    BugPattern(
        name="woken-by-its-own-status",
        bug="each run writes a new status, which causes the next run",
        family="liveness",
        sources=(),
        scenario=woken_by_its_own_status,
        found_by="one run",
    ),
    BugPattern(
        name="waits-for-what-it-does-not-watch",
        bug="the status follows from a pod whose changes start no run",
        family="liveness",
        sources=(),
        scenario=waits_for_what_it_does_not_watch,
        found_by="one run",
    ),
    BugPattern(
        name="never-tries-again",
        bug="a failed write is logged, the run succeeds, and nothing ever repeats it",
        family="liveness",
        sources=(),
        scenario=never_tries_again,
        found_by="fuzz",
        witness=FaultPlan([Fault(When("patch", "*/configmaps/*", nth=2), Refuse(500))]),
    ),
    BugPattern(
        name="gives-up-without-a-word",
        bug="a spec that the controller cannot serve gets neither an error nor an answer",
        family="liveness",
        sources=(),
        scenario=gives_up_without_a_word,
        found_by="one run",
    ),
)
