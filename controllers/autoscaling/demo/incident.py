"""AIBrix's incident of 2025 (vllm-project/aibrix#617): unreachable pods held up scaling down."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Protocol

import anyio
from attrs import define, evolve, field, frozen

from reconcile import Context, Controller, LabelSelector, Manager, ObjectMeta, Snapshot, Write, replicas
from reconcile.blocks import AllowedHosts, Fetch, HttpFetch, ScrapeLimits
from reconcile.kinds import Deployment, DeploymentSpec, Pod
from reconcile.simulation import BEHAVIOUR, Incident, IncidentStage, IncidentVerdict, Logic, Observer, observe
from reconcile.testing import LateTransport, PodPages

from ... import OPERATOR
from ..controller import make_controller
from ..models import MetricSourceSpec, PodAutoscaler, PodAutoscalerSpec, TargetRef
from .original import make_original_controller

APP = "model"
METRIC = "gpu_cache_usage_perc"
PORT = 29617
DEAF_ADDRESS = "127.76.0.1"
RIGHT = 2
PATIENCE = 20.0


@frozen
class LoadScenario:
    """Times in seconds, load in pods' worth.

    The nodes have room for `room` of `wanted` replicas; one of the Ready pods takes no connections. The load
    is `high` for `rest`, then `low`; the replicas must become right within `patience`, and stay so for
    `rest`.
    """

    wanted: int = 10
    room: int = 6
    high: float = 5.4
    low: float = 0.6
    window: int = 5
    panic: int = 2
    cooldown: int = 2
    every: float = 0.25
    rest: float = 1.5
    patience: float = 30.0
    patience_original: float = 4.0


DEFAULTS = LoadScenario(
    window=180, panic=60, cooldown=300, every=10.0, rest=120.0, patience=1800.0, patience_original=1800.0
)
"""The same with the default windows of an autoscaler: half an hour."""


class Network(Protocol):
    """Addresses for the pods that run, and a way to read their pages."""

    @property
    def fetch(self) -> Callable[[], Fetch]: ...
    def pages(self, metrics: Callable[[Pod], str]) -> AbstractAsyncContextManager["MetricPages"]:
        """Pods answer with `metrics` as long as the context lasts."""
        ...


class MetricPages(Protocol):
    async def begin(self, pod: Pod) -> str: ...
    async def end(self, uid: str) -> None: ...


@frozen
class Loopback:
    """Real sockets; each pod has its own address."""

    # The pods of the demo are sockets of this machine, which no autoscaler may ask by default.
    fetch: Callable[[], Fetch] = field(default=partial(HttpFetch, hosts=AllowedHosts(["127.0.0.0/8"])))

    @asynccontextmanager
    async def pages(self, metrics: Callable[[Pod], str]) -> AsyncIterator[MetricPages]:
        pages = PodPages(metrics, port=PORT)
        try:
            yield pages
        finally:
            with anyio.CancelScope(shield=True):
                await pages.close()


@define(eq=False)
class DemoWorkload:
    """Plays the controller of Deployments and nodes with room for `room` pods. The third pod is deaf."""

    pages: MetricPages
    room: int
    running: dict[str, str] = field(factory=dict, init=False)
    deaf: str = field(default="", init=False)
    begun: int = field(default=0, init=False)

    @property
    def controller(self) -> Controller[Deployment]:
        writes = [Write(kind, ("patch",), subresource="status") for kind in (Deployment, Pod)]
        return Controller(
            Deployment,
            self._keep,
            owns=(Pod,),
            writes=writes,
            name="demo-deployments",
            operator=OPERATOR,
            every=2.0,
        )

    async def _keep(self, ctx: Context[Deployment]) -> None:
        pods = await ctx.owned(Pod)
        diff = replicas.diff_replicas(
            ctx.object.spec.replicas or 0, [replicas.replica_of(pod) for pod in pods]
        )
        for removal in diff.delete:
            if removal.replica.object is not None:
                await ctx.delete(removal.replica.object)
        for _ in range(diff.create):
            await ctx.create(_pod(ctx.object, ctx.clock.uuid().hex[:8]))
        gone = {removal.replica.name for removal in diff.delete}
        there = [pod for pod in pods if pod.name not in gone and not pod.terminating]
        for uid in [uid for uid in self.running if uid not in {pod.uid for pod in there}]:
            del self.running[uid]
            await self.pages.end(uid)
        for pod in sorted(there, key=lambda pod: pod.name):
            if pod.uid not in self.running and len(self.running) < self.room:
                await self._run(ctx, pod)
        ctx.status(replicas=len(there), ready_replicas=len(self.running))

    async def _run(self, ctx: Context[Deployment], pod: Pod) -> None:
        self.begun += 1
        if self.begun == 3:
            self.deaf = pod.uid
        address = DEAF_ADDRESS if pod.uid == self.deaf else await self.pages.begin(pod)
        self.running[pod.uid] = address
        status = {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}
        await ctx.client.raw.merge(pod, {"status": status}, guard={"uid": pod.uid}, subresource="status")


@define
class _Load:
    pods: float


async def play(
    stage: IncidentStage, logic: Logic, scenario: LoadScenario = LoadScenario(), network: Network = Loopback()
) -> IncidentVerdict:
    """Let the load fall while pods wait for nodes and one is deaf: do the replicas follow?"""
    started = anyio.current_time()
    user = stage.user
    load = _Load(scenario.high)
    workload: list[DemoWorkload] = []

    def metrics(pod: Pod) -> str:
        share = min(1.0, load.pods / max(1, len(workload[0].running)))
        return f"# TYPE {METRIC} gauge\n{METRIC} {share:.6f}\n"

    async with (
        network.pages(metrics) as pages,
        observe(stage.observer, Deployment, Pod, namespace=stage.namespace, clock=stage.clock) as observer,
    ):
        workload.append(DemoWorkload(pages, scenario.room))
        async with Manager(workload[0].controller, transport=stage.observer, **stage.manager_options):
            stage.report(f"{scenario.wanted} pods, of which {scenario.room} find a node and one is deaf")
            await user.create(_deployment(stage.namespace, scenario.wanted))
            if not await observer.until(lambda: len(observer.ready(Pod)) == scenario.room, PATIENCE):
                why = f"{scenario.room} pods were not Ready within {PATIENCE:g} s"
                return IncidentVerdict(ok=False, seconds=anyio.current_time() - started, explanation=why)
            # Only now: what knows of some pods alone decides by those, in the original's way too.
            async with Manager(
                _sizer(logic, scenario, network),
                transport=LateTransport(stage.transport, stage.seed()),
                **stage.manager_options,
            ):
                await user.create(_autoscaler(stage.namespace, scenario))
                await anyio.sleep(scenario.rest)
                held = _replicas(observer)
                stage.report("the load falls")
                mark, load.pods = len(observer.changes), scenario.low
                patience = scenario.patience if logic == "ours" else scenario.patience_original
                if await observer.until(lambda: _replicas(observer) == RIGHT, patience):
                    await anyio.sleep(scenario.rest)
                final, low = _replicas(observer), _lowest(observer, mark)
                await user.delete(_autoscaler(stage.namespace, scenario))
            await user.delete(_deployment(stage.namespace, 0))
    verdict = (held, final, low) == (scenario.wanted, RIGHT, RIGHT) and observer.complete
    return IncidentVerdict(
        ok=verdict,
        seconds=round(anyio.current_time() - started, 1),
        explanation=f"{held} replicas under load, {final} after it, never below {low}; {RIGHT} are right",
    )


def _sizer(logic: Logic, scenario: LoadScenario, network: Network) -> Controller[PodAutoscaler]:
    if logic == "original":
        return make_original_controller(network.fetch, scenario.every)
    limits = ScrapeLimits(pod_seconds=0.5, run_seconds=1.0, backoff=max(0.5, scenario.every))
    return make_controller(every=scenario.every, fetch=network.fetch, limits=limits)


# --- what is looked at ----------------------------------------------------------------------------------


def _replicas(observer: Observer) -> int:
    return next((_replicas_of(one) for one in observer.objects(Deployment)), 0)


def _replicas_of(deployment: Snapshot) -> int:
    number: int = deployment.to_dict()["spec"].get("replicas", 0)
    return number


def _lowest(observer: Observer, mark: int) -> int:
    changes = [change.new for change in observer.changes[mark:] if change.new is not None]
    numbers = [_replicas_of(one) for one in changes if "replicas" in (one.to_dict().get("spec") or {})]
    return min([*numbers, _replicas(observer)])


# --- what is played with --------------------------------------------------------------------------------


def _meta(namespace: str, **annotations: str) -> ObjectMeta:
    return ObjectMeta(APP, namespace, annotations=annotations)


def _spec(scenario: LoadScenario) -> PodAutoscalerSpec:
    source = MetricSourceSpec(
        metric_source_type="pod",
        protocol_type="http",
        port=str(PORT),
        path="metrics",
        target_metric=METRIC,
        target_value="0.5",
    )
    return PodAutoscalerSpec(
        scale_target_ref=TargetRef("apps/v1", "Deployment", APP),
        min_replicas=1,
        max_replicas=scenario.wanted,
        scaling_strategy="KPA",
        metrics_sources=(source,),
        observe_window_seconds=scenario.window,
        panic_window_seconds=scenario.panic,
    )


def _autoscaler(namespace: str, scenario: LoadScenario) -> PodAutoscaler:
    cooldown = {"autoscaling.aibrix.ai/scale-down-cooldown-window": f"{scenario.cooldown}s"}
    return PodAutoscaler(metadata=_meta(namespace, **cooldown), spec=_spec(scenario))


def _deployment(namespace: str, replicas: int) -> Deployment:
    labels = {"app": APP}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": APP, "image": "model"}]}}
    spec = DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template, replicas=replicas)
    return Deployment(metadata=_meta(namespace), spec=spec)


def _pod(deployment: Deployment, suffix: str) -> Pod:
    template = deployment.spec.template
    name, annotations = f"{deployment.name}-{suffix}", {BEHAVIOUR: "pending"}
    metadata = evolve(template.metadata, name=name, namespace=deployment.namespace, annotations=annotations)
    return Pod(metadata=metadata, spec=template.spec)


incident = Incident(
    name="kpa-unready-pods",
    title="pods that cannot be asked do not hold up scaling down (AIBrix 617)",
    play=play,
    seconds=17,
)
