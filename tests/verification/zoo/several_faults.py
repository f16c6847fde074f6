"""Bugs behind a recovery that works: only a second or third fault, at the right moment, gets there."""

from collections.abc import Callable
from typing import Any

from reconcile import Context, Controller, Result
from reconcile.errors import ApiError
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import (
    Apply,
    CrashBefore,
    Fault,
    FaultPlan,
    Kill,
    Refuse,
    Scenario,
    Wait,
    When,
    World,
)
from tests.verification.zoo.kinds import DB, Cluster, config_map, scenario, secret
from tests.verification.zoo.patterns import BugPattern

ANY_CHANGE: dict[str, Any] = {"wakes": lambda old, new: True}


async def note(ctx: Context[Cluster], now: Cluster, phase: str) -> Cluster:
    """Write the phase at once. Raises StaleVersion if the cluster has changed since it was read."""
    return await ctx.client.raw.merge(now, {"status": {"phase": phase}}, subresource="status")


def outside(make_keep: Callable[[list[str]], Any], *steps: Any, **options: Any) -> Scenario:
    """A scenario with a ledger of payments outside the cluster."""

    def make(ledger: list[str]) -> Controller[Cluster]:
        return Controller(Cluster, make_keep(ledger), name="clusters", **options)

    return Scenario(controllers=make, outside=list, steps=steps or (Apply(DB),), invariants=[paid_once])


def paid_once(world: World) -> None:
    for payment in world.outside:
        assert world.outside.count(payment) == 1, f"{payment} was paid {world.outside.count(payment)} times"


def paid_twice_after_two_crashes(mended: bool) -> Scenario:
    def with_ledger(ledger: list[str]) -> Any:
        async def keep(ctx: Context[Cluster]) -> None:
            now, payment, phase = ctx.object, ctx.object.uid, ctx.object.status.phase
            if phase == "paid":
                return
            if phase == "":
                now = await note(ctx, now, "paying")
                ledger.append(payment)
            elif phase == "paying" or mended:
                now = await note(ctx, now, "asking")
                if payment not in ledger:
                    ledger.append(payment)
            else:  # asked before: so it had not been paid
                ledger.append(payment)
            await note(ctx, now, "paid")

        return keep

    return outside(with_ledger)


def retry_kept_in_memory(mended: bool) -> Scenario:
    def make() -> Controller[Cluster]:
        retries: set[str] = set()

        async def keep(ctx: Context[Cluster]) -> Result | None:
            if ctx.object.status.phase == "done" and ctx.object.uid not in retries:
                return None
            retries.discard(ctx.object.uid)
            try:
                await ctx.apply(config_map(ctx, "config"))
            except ApiError:
                if mended:
                    raise
                retries.add(ctx.object.uid)
            ctx.status(phase="done")
            return Result(requeue_after=5) if ctx.object.uid in retries else None

        return Controller(Cluster, keep, writes=[ConfigMap], name="clusters")

    def configured(world: World) -> None:
        for each in world.objects(Cluster):
            assert world.find(ConfigMap, f"{each.name}-config"), "the configuration was never written"

    return Scenario(controllers=make, steps=[Apply(DB)], invariants=[configured])


def gives_up_for_good(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        failures = ctx.object.status.replicas  # the only number of the status
        if failures >= 2 and not mended:
            return
        try:
            await ctx.apply(secret(ctx, "password"))
        except ApiError:
            ctx.status(replicas=failures + 1)
            raise
        ctx.status(replicas=0)

    def has_password(world: World) -> None:
        for each in world.objects(Cluster):
            assert world.find(Secret, f"{each.name}-password"), "no password, though the server is well"

    return scenario(keep, Apply(DB), owns=[Secret], invariants=[has_password])


BUGS = (
    BugPattern(
        name="paid-twice-after-two-crashes",
        bug="a payment is looked up after the first crash, and taken for missing after the second",
        family="several faults",
        sources=(),
        scenario=paid_twice_after_two_crashes,
        found_by="explore",
        witness=FaultPlan(
            [
                Fault(When("patch", "*/status", nth=2), CrashBefore()),
                Fault(When("patch", "*/status", nth=4), CrashBefore()),
            ]
        ),
    ),
    BugPattern(
        name="retry-kept-in-memory",
        bug="a failed write is to be repeated later, which only the memory of a process knows",
        family="several faults",
        sources=(),
        scenario=retry_kept_in_memory,
        found_by="fuzz",
        witness=FaultPlan(
            [Fault(When("patch", "*/configmaps/*"), Refuse(500))], [Apply(DB), Wait(2), Kill(), Wait(1)]
        ),
    ),
    BugPattern(
        name="gives-up-for-good",
        bug="after some failures in a row the controller never tries again, though nothing is wrong any more",
        family="several faults",
        sources=(),
        scenario=gives_up_for_good,
        found_by="fuzz",
        witness=FaultPlan([Fault(When("patch", "*/secrets/*", times=2), Refuse(500))]),
    ),
)
