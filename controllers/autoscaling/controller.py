"""The controller of pod autoscalers, based on the public block `Autoscaler`."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from attrs import frozen

from reconcile import Context, Controller
from reconcile.blocks import (
    AllowedHosts,
    Autoscaler,
    Fetch,
    HttpFetch,
    Policy,
    Probe,
    Scaled,
    ScrapeLimits,
    Unusable,
    active_schedule,
    always_ready,
)
from reconcile.conditions import find_condition, is_true

from .. import AIBRIX, OPERATOR
from ..refusals import refusing
from . import hpa
from .models import PodAutoscaler
from .pod_autoscaler_spec import HOSTS, behaviour_of, policy_of
from .pod_autoscaler_status import bounds_shown, claims_first, history_after

NAME = "pod-autoscalers"
EVERY_SECONDS = 10.0


@frozen
class _Keeper:
    autoscaler: Autoscaler[PodAutoscaler]
    policy: Callable[[PodAutoscaler], Policy]

    async def keep(self, ctx: Context[PodAutoscaler]) -> None:
        try:
            how = behaviour_of(ctx.object)
            if ctx.object.spec.scaling_strategy != "HPA":
                self.policy(ctx.object)
            ctx.condition("ValidSpec", True, reason="Valid", message="the spec is valid")
            if not await self._alone(ctx):
                await hpa.drop(ctx)
                return
            if ctx.object.spec.scaling_strategy == "HPA":
                schedule = active_schedule(how.schedules, ctx.clock.now())
                bounds = how.bounds if schedule is None else schedule.bounds(how.bounds)
                await hpa.keep(ctx, bounds)
                scaled = Scaled(bounds, schedule)
            else:
                await hpa.drop(ctx)
                scaled = await self.autoscaler.scale(ctx)
                _show(ctx, scaled)
        except Unusable as problem:
            _say_unusable(ctx, problem)
            return
        ctx.status(scheduled_bounds=bounds_shown(scaled.bounds, scaled.schedule) if how.schedules else None)
        _say_ready(ctx, scaled)

    @staticmethod
    async def _alone(ctx: Context[PodAutoscaler]) -> bool:
        others = await ctx.client.list(PodAutoscaler, ctx.object.namespace)
        first = claims_first(ctx.object, others)
        name = "MultiPodAutoscalerConflict"
        if first is None:
            ctx.condition(name, False, reason="Alone", message="no other autoscaler has the same target")
            return True
        why = f"{first.name} has the same target and is older: only that one sizes it"
        if not is_true(ctx.object.status.conditions, name):
            ctx.event("Conflict", why, warning=True, action="Scale")
        ctx.condition(name, True, reason="Conflict", message=why)
        ctx.condition("ScalingActive", False, reason="Conflict", message=why)
        ctx.condition("Ready", False, reason="Conflict", message=why)
        return False


def faults_of(autoscaler: PodAutoscaler, policy: Callable[[PodAutoscaler], Policy]) -> Iterator[str]:
    """Why nothing would be sized; the first fault alone, as in the status."""
    try:
        how = behaviour_of(autoscaler)
        if autoscaler.spec.scaling_strategy == "HPA":
            hpa.manifest_of(autoscaler, how.bounds)
        else:
            policy(autoscaler)
    except Unusable as problem:
        yield problem.message


def _show(ctx: Context[PodAutoscaler], scaled: Scaled) -> None:
    history = history_after(ctx.object, scaled, ctx.clock.now())
    ctx.status(desired_scale=scaled.desired, actual_scale=scaled.actual, scaling_history=history)
    if scaled.change is not None and not scaled.change.error:
        ctx.status(last_scale_time=ctx.clock.now())


def _say_ready(ctx: Context[PodAutoscaler], scaled: Scaled) -> None:
    if ctx.object.spec.scaling_strategy != "HPA" and scaled.current is None:
        ctx.condition("Ready", False, reason="NotScalable", message="see AbleToScale")
    elif scaled.change is not None and scaled.change.error:
        ctx.condition("Ready", False, reason="FailedUpdateScale", message="see AbleToScale")
    else:
        ctx.condition("Ready", True, reason="Sized", message="the target is sized")


def _say_unusable(ctx: Context[PodAutoscaler], problem: Unusable) -> None:
    before = find_condition(ctx.object.status.conditions, "ValidSpec")
    if before is None or (before.status, before.message) != ("False", problem.message):
        ctx.event(problem.reason, problem.message, warning=True, action="Scale")
    for name in ("ValidSpec", "Ready"):
        ctx.condition(name, False, reason=problem.reason, message=problem.message)
    why = f"nothing is sized: {problem.message}"
    ctx.condition("ScalingActive", False, reason=problem.reason, message=why)


def hosts_from(environ: Mapping[str, str]) -> AllowedHosts:
    """The allowed hosts in the environment, separated by commas. Raises ValueError."""
    try:
        return AllowedHosts([part for part in environ.get(HOSTS, "").split(",") if part.strip()])
    except ValueError as error:
        raise ValueError(f"{HOSTS}: {error}; for example *.monitoring.svc:9090") from None


def make_controller(
    *,
    every: float = EVERY_SECONDS,
    fetch: Callable[[], Fetch] | None = None,
    limits: ScrapeLimits | None = None,
    probe: Probe = always_ready,
    hosts: AllowedHosts | None = None,
) -> Controller[PodAutoscaler]:
    """The controller `pod-autoscalers`; it runs for each autoscaler every `every` seconds.

    `fetch`, `limits` and `probe` are those of `Autoscaler`. Pages other than those of pods are read only from
    `hosts`, by default from the variable `POD_AUTOSCALERS_HOSTS`. Raises ValueError for an invalid host.
    """
    allowed = hosts_from(os.environ) if hosts is None else hosts
    fetch = partial(HttpFetch, hosts=allowed) if fetch is None else fetch
    policy = partial(policy_of, hosts=allowed)
    autoscaler = Autoscaler(policy, probe=probe, fetch=fetch, limits=limits or ScrapeLimits())
    return Controller(
        PodAutoscaler,
        _Keeper(autoscaler, policy).keep,
        owns=(hpa.HorizontalPodAutoscaler,),
        reads=(PodAutoscaler,),  # those of one target are compared, whichever replica has them
        watches=autoscaler.watches,
        writes=autoscaler.writes,
        on_deleted=autoscaler.forget,
        admission=refusing(PodAutoscaler, partial(faults_of, policy=policy)),
        predecessor=AIBRIX,
        name=NAME,
        operator=OPERATOR,
        former_field_managers=[NAME],
        every=every,
    )


controller = make_controller()
"""The controller that `reconcile run pod-autoscalers` starts."""
