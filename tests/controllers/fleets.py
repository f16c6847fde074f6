"""What the tests of fleets are played with."""

from typing import Any

from attrs import define, evolve, field

from controllers.fleets import RayClusterFleet, RayClusterReplicaSet, make_controllers
from controllers.fleets.models import ClusterTemplate, FleetSpec, RollingUpdate, Strategy
from controllers.workergroups import RayCluster
from reconcile import LabelSelector, ObjectMeta
from reconcile.testing import FakeClient, RunReport, VirtualClock, run_once
from tests.helpers.admission import without_admission

LABELS = {"model.aibrix.ai/name": "llama"}


def template(image: str = "ray:1", labels: dict[str, str] = LABELS) -> ClusterTemplate:
    container = {"name": "ray-head", "image": image}
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}
    return ClusterTemplate({"headGroupSpec": head}, {"labels": labels})


def fleet(replicas: int = 3, *, image: str = "ray:1", name: str = "fleet", **spec: Any) -> RayClusterFleet:
    given = FleetSpec(template=template(image), selector=LabelSelector(LABELS), replicas=replicas)
    return RayClusterFleet(metadata=ObjectMeta(name, "default"), spec=evolve(given, **spec))


def rolling(surge: int | str, unavailable: int | str) -> Strategy:
    return Strategy("RollingUpdate", RollingUpdate(surge, unavailable))


@define
class Fleets:
    """A server with one fleet, whose controllers run when a test says so."""

    client: FakeClient
    fleets: Any = field(factory=lambda: without_admission(make_controllers()[0]))
    sets_of: Any = field(factory=lambda: without_admission(make_controllers()[1]))

    @property
    def clock(self) -> VirtualClock:
        clock = self.client.clock
        assert isinstance(clock, VirtualClock)
        return clock

    async def roll(self, name: str = "fleet") -> RunReport:
        return await run_once(self.fleets, f"default/{name}", self.client)

    async def fill(self) -> list[RunReport]:
        return [await run_once(self.sets_of, one, self.client) for one in await self.sets()]

    async def fleet(self, name: str = "fleet") -> RayClusterFleet:
        return await self.client.get(RayClusterFleet, name, "default")

    async def sets(self) -> list[RayClusterReplicaSet]:
        found = await self.client.list(RayClusterReplicaSet, "default")
        return sorted(found, key=lambda one: int(one.metadata.annotations.get(REVISION, "0")))

    async def sizes(self) -> list[int]:
        """Of the sets, the newest revision last."""
        return [one.spec.replicas for one in await self.sets()]

    async def clusters(self) -> list[RayCluster]:
        return list(await self.client.list(RayCluster, "default"))

    async def change(self, **spec: Any) -> None:
        def changed(old: RayClusterFleet) -> RayClusterFleet:
            return old.replace(spec=evolve(old.spec, **spec))

        await self.client.modify(RayClusterFleet, "fleet", "default", changed)

    async def annotate(self, **annotations: str) -> None:
        fleet = await self.fleet()
        await self.client.raw.merge(fleet, {"metadata": {"annotations": annotations}}, guard={})

    async def serve(self, *names: str, ready: bool = True) -> None:
        """Have clusters become ready (all of them, or those named), or no longer be."""
        now = self.clock.now().isoformat().replace("+00:00", "Z")
        for cluster in await self.clusters():
            if names and cluster.name not in names:
                continue
            await self.client.raw.merge(
                cluster, {"status": said(now, ready=ready)}, guard={}, subresource="status"
            )

    async def settle(self, rounds: int = 20) -> None:
        """Everyone runs, and what is made becomes ready, until nothing is left to be done."""
        for _ in range(rounds):
            done = [await self.roll(), *await self.fill()]
            await self.serve()
            done += await self.fill()
            if not any(one.writes for one in done):
                return
        raise AssertionError("it does not settle")


REVISION = "deployment.kubernetes.io/revision"


def said(now: str, *, ready: bool) -> dict[str, Any]:
    """The status of a cluster that was provisioned, and whose head is Ready or is not."""

    def condition(name: str, status: bool) -> dict[str, str]:
        return {
            "type": name, "status": str(status), "reason": "Test", "message": "", "lastTransitionTime": now,
        }  # fmt: skip

    return {
        "state": "ready",
        "conditions": [condition("RayClusterProvisioned", True), condition("HeadPodReady", ready)],
    }


async def fleets(given: RayClusterFleet | None = None) -> Fleets:
    """A server with a fleet on it, which no controller has seen."""
    made = Fleets(FakeClient())
    for controller in (made.fleets, made.sets_of):
        for kind in controller.kinds:
            made.client.serve(kind)
    if given is not None:
        await made.client.create(given)
    return made
