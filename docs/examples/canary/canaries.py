"""An operator that tries a new image on a growing share of all pods, and rolls it back if it fails."""

import math
from datetime import datetime, timedelta
from typing import Annotated

from attrs import evolve, frozen

from reconcile import Condition, Context, Controller, Intent, Manager, Object, ObjectMeta, Result, resource
from reconcile.kinds import Deployment, DeploymentSpec, LabelSelector
from reconcile.models import Schema


@frozen
class CanarySpec:
    image: str
    replicas: Annotated[int, Schema(minimum=0)] = 10
    steps: Annotated[
        tuple[int, ...], Schema(min_items=1, max_items=20, rules="self.all(s, s > 0 && s < 100)")
    ] = (10, 50)
    """The share of all pods that tries a new image, in percent, for each step."""
    step_time: Annotated[timedelta, Schema(rules="self > duration('0s')")] = timedelta(minutes=5)
    """The duration of a step; at its end all its pods have to be available."""


@frozen
class Progress:
    """The decision. It is stored before it is carried out, so a new process can continue after a crash."""

    stable: str = ""
    trial: str = ""
    step: int = 0
    since: datetime | None = None
    refused: bool = False


@frozen
class CanaryStatus:
    progress: Progress = Progress()
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", columns={"Stable": ".status.progress.stable", "Trial": ".status.progress.trial"})
class Canary(Object):
    spec: CanarySpec
    status: CanaryStatus = CanaryStatus()


def decide(spec: CanarySpec, now: Progress, at: datetime, stable_up: bool, trial_up: bool) -> Progress:
    """The state that follows `now`, which has been carried out; a pure function."""
    if spec.image == now.stable or not now.stable:
        # The pods of a successful trial stay until all others have its image.
        return Progress(stable=spec.image) if stable_up or now.trial != now.stable else now
    if spec.image != now.trial:
        return Progress(stable=now.stable, trial=spec.image)
    if now.refused:
        return now
    if now.since is None:  # the time of a step starts when it has been carried out
        return evolve(now, since=at)
    if at < now.since + spec.step_time:
        return now
    if not trial_up:
        return evolve(now, refused=True, since=None)
    if now.step + 1 < len(spec.steps):
        return evolve(now, step=now.step + 1, since=None)
    return evolve(now, stable=now.trial, since=None)


def deployment_for(canary: Canary, track: str, image: str, replicas: int) -> Intent[Deployment]:
    labels = {"app": canary.name, "track": track}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": image}]}}
    spec = DeploymentSpec(LabelSelector(labels), pod, replicas)
    return Intent(Deployment, metadata=ObjectMeta(f"{canary.name}-{track}"), spec=spec)


async def keep_canary(ctx: Context[Canary]) -> Result | None:
    canary, at = ctx.object, ctx.clock.now()
    spec, now = canary.spec, canary.status.progress
    stable = await ctx.apply(deployment_for(canary, "stable", now.stable or spec.image, spec.replicas))
    trial_up = False
    if now.trial and not now.refused:
        share = spec.steps[min(now.step, len(spec.steps) - 1)]
        pods = math.ceil(spec.replicas * share / (100 - share))  # on top of the stable ones, which all stay
        trial_up = (await ctx.apply(deployment_for(canary, "canary", now.trial, pods))).rolled_out
    ctx.prune(Deployment)  # the canary's, if this run has not applied it

    ahead = decide(spec, now, at, stable.rolled_out, trial_up)
    ctx.status(progress=ahead)
    ready = stable.rolled_out and not ahead.trial
    ctx.condition("Ready", ready, reason="Refused" if ahead.refused else "Rollout")
    if ahead.refused and not now.refused:
        ctx.event("RolledBack", f"{ahead.trial} was not available within {spec.step_time}", warning=True)
    if ahead != now:
        return Result(requeue=True)
    return Result(requeue_after=now.since + spec.step_time - at) if now.since else None


canaries = Controller(Canary, keep_canary, owns=[Deployment])
manager = Manager(canaries)
