"""Sizes objects with a /scale by metrics: from readings to a decision to one guarded write.

Memory from run to run belongs to an object by its uid. All other modules here are pure, or only read.
"""

import datetime
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import anyio
from attrs import define, evolve, field, frozen

from informers import Forbidden, Invalid, NotFound, ServerError
from reconcile.blocks.autoscaler.decision import (
    Behaviour,
    DesiredReplicas,
    Measured,
    Memory,
    TargetState,
    decide,
)
from reconcile.blocks.autoscaler.metric_pages import Fetch, HttpFetch
from reconcile.blocks.autoscaler.metric_sources import MetricSource, Sight
from reconcile.blocks.autoscaler.readings import Reading, Samples
from reconcile.blocks.autoscaler.replica_bounds import (
    ReplicaBounds,
    ScaleStep,
    Schedule,
    active_schedule,
    asks_probe,
    step_to,
)
from reconcile.blocks.autoscaler.scraper import Candidates, ScrapeLimits, Scraper
from reconcile.controller.context import Context
from reconcile.controller.declaration import Watch, Write
from reconcile.controller.tombstones import Deleted
from reconcile.kinds import Pod
from reconcile.models import Object, Unstructured, kind_of
from reconcile.predicates import Predicate

T = TypeVar("T", bound=Object)

UNPLACED_SECONDS = 180.0


@frozen
class ScaleTarget:
    """What is sized: an object with a /scale, in the namespace of the object that names it."""

    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@frozen(kw_only=True)
class Policy:
    """The target, sources and rules; a condition reports pods without a node for `unplaced_seconds`."""

    target: ScaleTarget
    sources: Sequence[MetricSource]
    how: Behaviour = field(factory=Behaviour)
    unplaced_seconds: float = UNPLACED_SECONDS


@frozen
class Scaling:
    """A change of replicas, and its reason. `error` says why it was refused; empty if it was written."""

    before: int
    after: int
    reason: str
    error: str = ""


@frozen
class Scaled:
    """The result of a run, with the bounds of now; None for `current` and `desired`: it cannot be sized."""

    bounds: ReplicaBounds
    schedule: Schedule | None = None
    current: int | None = None
    desired: int | None = None
    actual: int | None = None
    change: Scaling | None = None


Probe = Callable[[Context[Any], ScaleTarget], Awaitable[bool]]
"""Whether a stand-in takes requests for a target that has no replicas."""


async def always_ready(ctx: Context[Any], target: ScaleTarget) -> bool:
    """The probe of an autoscaler whose targets have no stand-in without replicas."""
    return True


@define
class _Remembered:
    policy: Policy
    memory: Memory
    scraper: Scraper


@define(eq=False)
class Autoscaler(Generic[T]):
    """Sizes targets for the objects of one kind.

    `policy` maps an object to its policy; it is pure, and may raise `Unusable` for a spec without a meaning:
    nothing is touched then. Pods are read through the cache, sources are asked within `limits`, and the one
    write goes through /scale, as a test and a replace: a concurrent change is never overwritten. A missing
    reading never counts as 0; the condition `MetricsAvailable` says why it is missing.

    `probe` says whether the stand-in for the last replica is ready; it is asked before scaling to 0. `fetch`
    is how pages are fetched.

    Use it as `Controller(Kind, keep, watches=autoscaler.watches, writes=autoscaler.writes,
    on_deleted=autoscaler.forget, every=10)`, where `keep` awaits `autoscaler.scale(ctx)`. The kind's status
    has `conditions`. Its memory is lost at a restart, after which it removes nothing until the windows are
    filled again.
    """

    policy: Callable[[T], Policy]
    probe: Probe = field(default=always_ready, kw_only=True)
    fetch: Callable[[], Fetch] = field(default=HttpFetch, kw_only=True)
    limits: ScrapeLimits = field(factory=ScrapeLimits, kw_only=True)
    _remembered: dict[str, _Remembered] = field(factory=dict, init=False, repr=False)

    @property
    def watches(self) -> tuple[Watch[T, Pod], ...]:
        """The watches that its controller needs: Pods, whose changes start no run."""
        return (Watch(Pod, to=lambda pod: (), wakes=Predicate(lambda old, new: False)),)

    @property
    def writes(self) -> tuple[Write, ...]:
        """What a controller declares for it: the /scale of any kind. Name kinds, to allow less."""
        return (Write(Object, ("get", "patch"), subresource="scale"),)

    async def forget(self, gone: Deleted[T]) -> None:
        """Forget a deleted object; as `on_deleted=` of a controller."""
        self._remembered.pop(gone.object.uid, None)

    async def scale(self, ctx: Context[T]) -> Scaled:
        """Measure, decide, and write a changed number.

        Sets the conditions AbleToScale, ScalingActive, MetricsAvailable and PodsUnplaced, and reports a
        change in an Event. Raises Unusable as `policy` does, and StaleVersion for a concurrent change.
        """
        policy = self.policy(ctx.object)
        schedule = active_schedule(policy.how.schedules, ctx.clock.now())
        bounds = policy.how.bounds if schedule is None else schedule.bounds(policy.how.bounds)
        scaled = Scaled(bounds, schedule)
        try:
            target, scale = await _read_scale(ctx, policy.target)
        except _NotScalable as problem:
            _say(ctx, "AbleToScale", False, problem.reason, str(problem), warn=True)
            _say(ctx, "ScalingActive", False, problem.reason, str(problem))
            return scaled
        current = scale["spec"].get("replicas") or 0
        status = scale.get("status") or {}
        scaled = evolve(scaled, current=current, actual=status.get("replicas") or 0, desired=current)
        if current == 0 and bounds.minimum > 0:
            why = f"{policy.target} was scaled to 0 by hand; give it a replica to have it sized again"
            _say(ctx, "ScalingActive", False, "ScalingDisabled", why)
            _say(ctx, "AbleToScale", True, "Found", f"{policy.target} has a /scale")
            self._remembered.pop(ctx.object.uid, None)
            return scaled
        selector = status.get("selector") or ""
        return await self._size(ctx, policy, scaled, target, selector)

    # --- within -------------------------------------------------------------------------------------

    async def _size(
        self, ctx: Context[T], policy: Policy, scaled: Scaled, target: Unstructured, selector: str
    ) -> Scaled:
        current = scaled.current or 0
        known = self._recall(ctx, policy)
        pods = await ctx.client.list(Pod, ctx.object.namespace, labels=selector) if selector else []
        candidates = Candidates.among(pods)
        known.scraper.forget(pod.uid for pod in pods)
        active = len(candidates.ready) + len(candidates.unready)
        sight = Sight(
            ctx.client, known.scraper, ctx.object.namespace, selector, candidates, max(0, current - active)
        )
        measured = await measure(policy.sources, sight)
        now = round(anyio.current_time() * 1000)
        there = TargetState(current, len(candidates.ready), now)
        wish, known.memory = decide(policy.how, scaled.bounds, known.memory, measured, there)
        _say_metrics(ctx, wish, measured)
        _say_places(ctx, candidates, policy.unplaced_seconds)
        step = await self._step(ctx, policy, wish, known.memory, scaled, now)
        if not step.write:
            _say(ctx, "AbleToScale", True, "Found", f"{policy.target} has a /scale")
            return evolve(scaled, desired=step.desired if step.desired >= 0 else current)
        return await self._write(ctx, policy, scaled, target, step.desired, _why(wish, current, step.desired))

    @staticmethod
    async def _write(
        ctx: Context[T], policy: Policy, scaled: Scaled, target: Unstructured, replicas: int, why: str
    ) -> Scaled:
        current = scaled.current or 0
        change = Scaling(current, replicas, why)
        try:
            await ctx.client.raw.set_scale(target, replicas, expect=current)
        except (Forbidden, Invalid, NotFound) as error:
            change = evolve(change, error=f"{error.code} {error.reason}")
            refused = f"the /scale of {policy.target} refused the number: {change.error}"
            _say(ctx, "AbleToScale", False, "FailedUpdateScale", refused, warn=True)
            return evolve(scaled, desired=replicas, change=change)
        ctx.event("Rescaled", f"{policy.target}: {current} to {replicas} replicas: {why}", action="Scale")
        _say(ctx, "AbleToScale", True, "Found", f"{policy.target} has a /scale")
        return evolve(scaled, desired=replicas, change=change)

    async def _step(
        self, ctx: Context[T], policy: Policy, wish: DesiredReplicas, memory: Memory, scaled: Scaled, now: int
    ) -> ScaleStep:
        zero, activity = policy.how.zero, memory.activity
        assert activity is not None, "a decision always leaves one"
        answered = True
        if asks_probe(wish.replicas, scaled.bounds, zero, activity):
            answered = await self.probe(ctx, policy.target)
        return step_to(
            wish.replicas, scaled.current or 0, scaled.bounds, zero, activity, now, answered=answered
        )

    def _recall(self, ctx: Context[T], policy: Policy) -> _Remembered:
        """The memory of the object; empty for another target or rule."""
        known = self._remembered.get(ctx.object.uid)
        if known is None or known.policy.target != policy.target or known.policy.how.rule != policy.how.rule:
            known = _Remembered(policy, Memory(), Scraper(ctx.clock, self.limits, self.fetch))
            self._remembered[ctx.object.uid] = known
        known.policy = policy
        return known


class _NotScalable(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def _read_scale(ctx: Context[Any], target: ScaleTarget) -> tuple[Unstructured, dict[str, Any]]:
    metadata = {"name": target.name, "namespace": ctx.object.namespace}
    manifest = {"apiVersion": target.api_version, "kind": target.kind, "metadata": metadata}
    try:
        named = await ctx.client.raw.unstructured(manifest)
    except (LookupError, ValueError):
        why = f"the server has no kind {target.kind} of {target.api_version}"
        raise _NotScalable("TargetKindUnknown", why) from None
    if ctx.object.namespace and not kind_of(type(named)).resource.namespaced:
        why = f"{target} belongs to no namespace: an object of a namespace sizes what is in it"
        raise _NotScalable("TargetNotInNamespace", why)
    try:
        scale = await ctx.client.raw.read_subresource(named, "scale")
    except NotFound:
        there = await ctx.client.find(type(named), target.name, ctx.object.namespace, live=True)
        if there is None:
            raise _NotScalable("TargetNotFound", f"there is no {target}") from None
        raise _NotScalable("TargetHasNoScale", f"{target} has no /scale") from None
    except ServerError as error:
        if error.code != 500 or "replicas" not in str(error):
            raise
        # The answer of an API server for a custom resource without replicas; it has no code of its own.
        raise _NotScalable("TargetHasNoReplicas", f"{target} has no number of replicas") from None
    metadata = {**metadata, "uid": scale["metadata"].get("uid") or ""}
    return await ctx.client.raw.unstructured({**manifest, "metadata": metadata}), {
        **scale,
        "spec": scale.get("spec") or {},
    }


async def measure(sources: Sequence[MetricSource], sight: Sight) -> list[Measured]:
    found: dict[int, Measured] = {}
    names = [source.name for source in sources]

    async def one(number: int, source: MetricSource) -> None:
        # What is remembered of a source goes by its name, so two of one name are told apart.
        name = source.name if names.count(source.name) == 1 else f"{source.name} ({number + 1})"
        found[number] = Measured(name, source.target, await source.read(sight))

    async with anyio.create_task_group() as group:
        for number, source in enumerate(sources):
            group.start_soon(one, number, source)
    return [found[number] for number in sorted(found)]


def _why(wish: DesiredReplicas, before: int, after: int) -> str:
    if wish.missing and after < before:
        return "it is above its bounds"
    if after < before:
        return "the metrics ask for less"
    return "a burst asks for more" if wish.panicking else "the metrics ask for more"


def _say_metrics(ctx: Context[Any], wish: DesiredReplicas, measured: Sequence[Measured]) -> None:
    if not measured:
        _say(ctx, "ScalingActive", False, "NoSources", "there is no metric")
        return
    if not wish.missing:
        if all(_is_whole(one.reading) for one in measured):
            _say(ctx, "MetricsAvailable", True, "Measured", "every metric has a value")
        else:
            some = "every metric has a value, and some Ready pods gave none"
            _say(ctx, "MetricsAvailable", True, "PartlyMeasured", some)
        _say(ctx, "ScalingActive", True, "Measured", "replicas follow the metrics")
        return
    name, first = sorted(wish.missing.items())[0]
    why = f"{name}: {first.message}"
    _say(ctx, "MetricsAvailable", False, first.reason, why, warn=first.reason != "NoReadyPods")
    word = "replicas stay as they are" if wish.held else "replicas follow the metrics that have values"
    _say(ctx, "ScalingActive", not wish.held, first.reason, f"{word}; {why}")


def _is_whole(reading: Reading) -> bool:
    return not isinstance(reading, Samples) or reading.filled


def _say_places(ctx: Context[Any], candidates: Candidates, seconds: float) -> None:
    latest = ctx.clock.now() - datetime.timedelta(seconds=seconds)
    waiting = [pod for pod in candidates.unready if not pod.spec.node_name and _made_before(pod, latest)]
    if waiting:
        why = "pods find no node: the maximum is more than the cluster can place"
        _say(ctx, "PodsUnplaced", True, "Unschedulable", why)
    else:
        _say(ctx, "PodsUnplaced", False, "Placed", "no pod waits for a node for long")


def _made_before(pod: Pod, latest: datetime.datetime) -> bool:
    made = pod.metadata.creation_timestamp
    return made is not None and made <= latest


def _say(
    ctx: Context[Any], name: str, status: bool, reason: str, message: str, *, warn: bool = False
) -> None:
    """Set a condition; with `warn`, also record a Warning when it changes."""
    ctx.condition(name, status, reason=reason, message=message)
    if warn and not _said(ctx.object, name, status, reason):
        ctx.event(reason, message, warning=True, action="Scale")


def _said(obj: Any, name: str, status: bool, reason: str) -> bool:
    conditions = getattr(getattr(obj, "status", None), "conditions", ()) or ()
    return any((c.type, c.status, c.reason) == (name, str(status), reason) for c in conditions)
