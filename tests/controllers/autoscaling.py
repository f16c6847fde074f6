"""A simulated cluster for pod autoscalers: pods whose pages are found by address, in virtual time."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
from attrs import define, field, frozen

from controllers.autoscaling import PodAutoscaler, definition, make_controller
from controllers.autoscaling.demo.incident import DemoWorkload, MetricPages
from reconcile import Client, LabelSelector, Manager, ObjectMeta
from reconcile.blocks import AllowedHosts, Fetch, FetchFailed, ScrapeLimits
from reconcile.kinds import Deployment, DeploymentSpec, Event, Pod
from reconcile.simulation import Delays
from reconcile.testing import FaultyTransport, simulate
from tests.controllers.world import NAMESPACE, World, world


@define(eq=False)
class Net:
    """Answers at the addresses of pods that have begun; others refuse. `hanging` ones never answer."""

    metrics: Callable[[Pod], str] = lambda pod: "load 0\n"
    pods: dict[str, Pod] = field(factory=dict)
    hanging: set[str] = field(factory=set)
    asked: int = 0
    begun: int = 0

    @property
    def fetch(self) -> Callable[[], Fetch]:
        return lambda: _Fetch(self)

    @asynccontextmanager
    async def pages(self, metrics: Callable[[Pod], str]) -> AsyncIterator[MetricPages]:
        self.metrics = metrics
        yield self

    async def begin(self, pod: Pod) -> str:
        # Counted on, not by those that run: two pods at once must never have one address.
        address = f"10.9.{self.begun // 250}.{self.begun % 250}"
        self.begun += 1
        self.pods[address] = pod
        return address

    async def end(self, uid: str) -> None:
        self.pods = {address: pod for address, pod in self.pods.items() if pod.uid != uid}


@frozen
class _Fetch:
    net: Net

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def page(self, url: str, most_bytes: int) -> bytes:
        self.net.asked += 1
        address = url.removeprefix("http://").partition("/")[0].partition(":")[0]
        if address in self.net.hanging:
            await anyio.sleep(3600)
        if address not in self.net.pods:
            raise FetchFailed("ConnectionRefused", "it does not take connections")
        page = self.net.metrics(self.net.pods[address]).encode()
        if len(page) > most_bytes:
            raise FetchFailed("PageTooLarge", "its page is too large")
        return page


@define(eq=False)
class Metrics:
    """Pages that say `load` at this moment; another text in `page` goes before it."""

    load: float = 0.0
    page: str = ""

    def __call__(self, pod: Pod) -> str:
        return self.page or f"# TYPE load gauge\nload {self.load}\n"


EVERY = 2.0
QUICK = {
    "autoscaling.aibrix.ai/scale-down-cooldown-window": "4s",
    "autoscaling.aibrix.ai/max-scale-down-rate": "10",
    "autoscaling.aibrix.ai/max-scale-up-rate": "10",
}


@define
class Here:
    """A cluster with a workload that runs pods, and the controller of pod autoscalers."""

    world: World
    net: Net
    metrics: Metrics
    workload: DemoWorkload
    requests: FaultyTransport
    probed: list[bool]

    @property
    def user(self) -> Client:
        return self.world.user

    async def make(self, name: str = "model", annotations: Mapping[str, str] = QUICK, **spec: Any) -> None:
        await self.user.apply(autoscaler(name, annotations, **spec))

    async def deploy(self, replicas: int, name: str = "model") -> None:
        await self.user.create(deployment(name, replicas))

    async def settle(self, replicas: int) -> None:
        """An autoscaler and as many pods as their load needs."""
        self.metrics.load = 1.0
        await self.deploy(replicas)
        await self.make()
        await anyio.sleep(30)

    async def replicas(self, name: str = "model") -> int:
        return (await self.user.get(Deployment, name, NAMESPACE)).spec.replicas or 0

    async def find(self, name: str = "model") -> PodAutoscaler:
        return await self.user.get(PodAutoscaler, name, NAMESPACE)

    async def conditions(self, name: str = "model") -> dict[str, tuple[str, str, str]]:
        found = (await self.find(name)).status.conditions
        return {one.type: (one.status, one.reason, one.message) for one in found}

    async def events(self) -> set[str]:
        return {event.reason for event in await self.user.list(Event, NAMESPACE)}


def autoscaler(name: str, annotations: Mapping[str, str] = QUICK, **spec: Any) -> dict[str, Any]:
    plain = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "model"},
        "minReplicas": 1,
        "maxReplicas": 8,
        "scalingStrategy": "KPA",
        "observeWindowSeconds": 4,
        "panicWindowSeconds": 2,
        "metricsSources": [
            {"metricSourceType": "pod", "port": "80", "targetMetric": "load", "targetValue": "1"}
        ],
    }
    return {
        "apiVersion": "autoscaling.aibrix.ai/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations)},
        "spec": {**plain, **spec},
    }


def deployment(name: str, replicas: int) -> Deployment:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "engine", "image": "e"}]}}
    spec = DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template, replicas=replicas)
    return Deployment(metadata=ObjectMeta(name, NAMESPACE), spec=spec)


@asynccontextmanager
async def cluster(
    *, room: int = 20, answered: bool = True, crd: Mapping[str, Any] | None = None, seed: int = 0
) -> AsyncIterator[Here]:
    probed: list[bool] = []

    async def probe(ctx: object, target: object) -> bool:
        probed.append(answered)
        return answered

    async with world(seed, crd or definition(), delays=Delays(0.2, 0.2)) as there:
        net, metrics = Net(), Metrics()
        net.metrics = metrics
        workload = DemoWorkload(net, room)
        workload.begun = 3  # none of them is deaf
        async with anyio.create_task_group() as group:
            await group.start(Manager(workload.controller, transport=there.transport, clock=there.clock).run)
            sizes = make_controller(
                every=EVERY,
                fetch=net.fetch,
                probe=probe,
                limits=ScrapeLimits(pod_seconds=0.5),
                hosts=AllowedHosts(["*"]),
            )
            async with there.running(sizes) as requests:
                yield Here(there, net, metrics, workload, requests, probed)
            group.cancel_scope.cancel()


def told(story: Callable[[Here], Any], **options: Any) -> None:
    async def run() -> None:
        async with cluster(**options) as here:
            await story(here)

    simulate(run)
