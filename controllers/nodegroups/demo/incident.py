"""The incident of kubernetes/autoscaler#7872: conflicts put the best group aside for minutes."""

from collections.abc import Callable, Iterator
from typing import Any

import anyio
from attrs import define, field, frozen

from reconcile import Client, Manager, ObjectMeta, Unstructured
from reconcile.errors import AlreadyExists, NotFound, StaleVersion
from reconcile.kinds import ConfigMap, Node
from reconcile.simulation import BEHAVIOUR, Incident, IncidentStage, IncidentVerdict, Logic
from reconcile.testing import Delay, Fault, FaultPlan, FaultyTransport, RefuseAsStale, When

from ..cluster_reads import PRIORITIES
from ..controller import make_controller
from ..group_annotations import CAPACITY, MAX_SIZE, MIN_SIZE
from ..models import NodeAutoscaler, NodeAutoscalerSpec, ScaleDownSpec
from ..sizing_run import NodeGroupSettings
from ..upscale import GROW
from .original import LIKE_7872
from .simulated import DEPLOYMENT, SimulatedMachines

BEST, SECOND = "best", "second"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}
CONFLICT, UNPROCESSABLE = 409, 422
TICK = 0.05
PLANNED = 400


@frozen
class ConflictScenario:
    """`refused` percent of writes are answered 409; a write takes `slow` seconds.

    The group grows from `start` to `goal` node by node, in several rounds until `conflicts` have occurred.
    `rewrites` are per second.
    """

    start: int = 3
    goal: int = 10
    refused: int = 30
    slow: float = 0.03
    rewrites: float = 20.0
    conflicts: int = 20
    rounds: int = 8
    patience: float = 8.0


@define
class GroupPlay:
    stage: IncidentStage
    scenario: ConflictScenario
    machines: SimulatedMachines
    user: Client
    recorded: FaultyTransport
    rewritten: int = 0
    rounds: int = 0
    largest: int = field(default=0)

    @property
    def conflicts(self) -> int:
        """How many writes to the groups were refused: as stale, or after another writer."""
        refused = [one for one in self.recorded.writes if one.status in (CONFLICT, UNPROCESSABLE)]
        return sum("/machinedeployments/" in one.path for one in refused)

    async def group(self, name: str) -> Unstructured:
        kind = self.machines.api.kind("MachineDeployment")
        return await self.user.get(kind, name, self.stage.namespace, live=True)

    async def size(self, name: str) -> int:
        return int((await self.group(name))["spec"]["replicas"])

    async def rewrite(self) -> None:
        """Write the best group again and again, with alternately one replica fewer and one more."""
        taken = False
        while True:
            await anyio.sleep(1 / self.scenario.rewrites)
            live = await self.group(BEST)
            size = int(live["spec"]["replicas"])
            if taken:
                size = min(self.scenario.goal, size + 1)
            elif self.scenario.start < size < self.scenario.goal and self.rewritten % 2:
                size -= 1
            metadata = {**live["metadata"]}
            annotations = {**(metadata.get("annotations") or {}), "demo/rewritten": str(self.rewritten)}
            body = {**live.body, "metadata": {**metadata, "annotations": annotations}}
            body["spec"] = {**live["spec"], "replicas": size}
            changed = live.with_metadata(annotations=annotations).replace(body=body)
            try:
                await self.user.raw.update(changed, whole=True)
            except (StaleVersion, NotFound):
                continue
            taken = size < int(live["spec"]["replicas"])
            self.rewritten += 1


async def play(
    stage: IncidentStage, logic: Logic, scenario: ConflictScenario = ConflictScenario()
) -> IncidentVerdict:
    """Let pods ask for one node after another, while the best group is hard to write."""
    started = anyio.current_time()
    settings = NodeGroupSettings()
    machines = SimulatedMachines(seconds=0.1, api=settings.api)
    user = Client(stage.transport, field_manager="demo-user", clock=stage.clock)
    recorded = FaultyTransport(stage.transport, FaultPlan(tuple(_faults(stage, scenario))))
    played = GroupPlay(stage, scenario, machines, user, recorded)
    await _install(user, machines)
    controller = make_controller(settings, growth=GROW if logic == "ours" else LIKE_7872)
    ours = Manager(controller, transport=recorded, **stage.manager_options)
    theirs = Manager(machines.controller, transport=stage.transport, **stage.manager_options)
    await _set_up(played)
    async with theirs, ours, anyio.create_task_group() as group:
        group.start_soon(played.rewrite)
        while played.rounds < scenario.rounds and played.conflicts < scenario.conflicts:
            played.rounds += 1
            stage.report(
                f"growing the best group from {scenario.start} to {scenario.goal}, round {played.rounds}"
            )
            if not await _round(played, lambda: ours.trigger(controller, f"{stage.namespace}/all")):
                break
        group.cancel_scope.cancel()
    verdict = await _judge(played, anyio.current_time() - started)
    await _tidy(played)
    return verdict


async def _round(played: GroupPlay, trigger: Callable[[], None]) -> bool:
    """Create pods one by one, each of which needs a node; returns whether the best group grew for all."""
    stage, scenario = played.stage, played.scenario
    if played.rounds > 1:
        await _start_over(played)
    for number in range(scenario.goal):
        await _wait_in_vain(played.user, _pod(stage.namespace, number))
        wanted = max(scenario.start, number + 1)
        deadline = anyio.current_time() + scenario.patience
        while not await _has_grown(played, wanted):
            if anyio.current_time() > deadline or await played.size(SECOND):
                return False
            trigger()
            await anyio.sleep(TICK)
    return True


async def _has_grown(played: GroupPlay, wanted: int) -> bool:
    size = await played.size(BEST)
    played.largest = max(played.largest, size)
    return size >= wanted


async def _start_over(played: GroupPlay) -> None:
    """Remove the pods and their nodes."""
    for number in range(played.scenario.goal):
        pod = _pod(played.stage.namespace, number)
        await played.user.delete(await played.user.raw.unstructured(pod), grace_seconds=0)
    await played.user.scale(await played.group(BEST), lambda _: played.scenario.start)
    await anyio.sleep(10 * TICK)


async def _judge(played: GroupPlay, seconds: float) -> IncidentVerdict:
    found = await played.user.get(NodeAutoscaler, "all", played.stage.namespace, live=True)
    backed_off = [one.name for one in found.status.groups if one.backoff_until is not None]
    best, second = await played.size(BEST), await played.size(SECOND)
    goal, conflicts = played.scenario.goal, played.conflicts
    enough = conflicts >= played.scenario.conflicts
    explanation = (
        f"the best group has {best} nodes of {goal}, the second one {second}; {conflicts} conflicts were met "
        f"in {played.rounds} rounds, {played.rewritten} rewrites, and {len(backed_off)} groups backed off"
    )
    if not enough:
        explanation += f"; fewer conflicts than the {played.scenario.conflicts} that belong to the incident"
    return IncidentVerdict(
        ok=best == goal and second == 0 and not backed_off and enough,
        seconds=round(seconds, 1),
        explanation=explanation,
    )


# --- what is played with ------------------------------------------------------------------------


def _faults(stage: IncidentStage, scenario: ConflictScenario) -> Iterator[Fault]:
    """Random refusals, and a delay of each write to a group."""
    for number in range(1, PLANNED):
        if stage.clock.random() * 100 < scenario.refused:
            yield Fault(When("write", nth=number), RefuseAsStale())
    yield Fault(When("write", "*/machinedeployments/*", times=None), Delay(scenario.slow))


async def _install(user: Client, machines: SimulatedMachines) -> None:
    kinds = ("MachineDeployment", "MachineSet", "MachinePool")
    for definition in machines.definitions(scaled=kinds):
        try:
            await user.create(definition)
        except AlreadyExists:
            continue


async def _set_up(played: GroupPlay) -> None:
    namespace, user = played.stage.namespace, played.user
    priorities = f"10:\n- .*{SECOND}$\n50:\n- .*{BEST}$\n"
    await user.create(ConfigMap(metadata=ObjectMeta(PRIORITIES, namespace), data={"priorities": priorities}))
    for name, size in ((BEST, played.scenario.start), (SECOND, 0)):
        await user.create(_group(namespace, name, size, played))
    spec = NodeAutoscalerSpec(
        expanders=("priority",), priorities=namespace, scan=1, scale_down=ScaleDownSpec(enabled=False)
    )
    await user.create(NodeAutoscaler(metadata=ObjectMeta("all", namespace), spec=spec))


async def _tidy(played: GroupPlay) -> None:
    """Nodes have no namespace, so they do not go with it."""
    for node in await played.user.list(Node):
        if node.metadata.labels.get("demo-pool") == played.stage.namespace:
            await played.user.delete(node)


def _group(namespace: str, name: str, size: int, played: GroupPlay) -> dict[str, Any]:
    annotations = {
        MIN_SIZE: "0",
        MAX_SIZE: str(played.scenario.goal),
        CAPACITY + "cpu": "4",
        CAPACITY + "memory": "8Gi",
        CAPACITY + "labels": f"demo-pool={namespace}",
    }
    api = played.machines.api
    return {
        "apiVersion": f"{api.group}/{api.version}",
        "kind": "MachineDeployment",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "clusterName": "demo",
            "replicas": size,
            "selector": {"matchLabels": {DEPLOYMENT: name}},
            "template": {
                "metadata": {"labels": {DEPLOYMENT: name}},
                "spec": {
                    "clusterName": "demo",
                    "bootstrap": {"dataSecretName": "demo"},
                    "infrastructureRef": {"apiGroup": "demo.example.com", "kind": "Shape", "name": name},
                },
            },
        },
    }


def _pod(namespace: str, number: int) -> dict[str, Any]:
    """A pod that fills a node of the groups; simulated nodes leave it pending."""
    requests = {"cpu": "3", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"asks-{number}", "namespace": namespace, "annotations": {BEHAVIOUR: "pending"}},
        "spec": {
            "nodeSelector": {"demo-pool": namespace},
            "containers": [{"name": "a", "image": "pause", "resources": {"requests": requests}}],
        },
    }


async def _wait_in_vain(user: Client, manifest: dict[str, Any]) -> None:
    made = await user.create(manifest)
    status = {"conditions": [UNSCHEDULABLE]}
    await user.raw.merge(made, {"status": status}, guard={}, subresource="status")


incident = Incident(
    name="node-group-conflicts",
    title="a group that is hard to write stays the first choice (cluster-autoscaler 7872)",
    play=play,
    seconds=13,
)
