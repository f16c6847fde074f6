"""KubeRay's incident of 2025 (ray-project/kuberay#3286): scaling down by one deleted several workers."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from attrs import evolve, field, frozen

from reconcile import Client, Manager, ObjectMeta, Snapshot
from reconcile.errors import NotFound
from reconcile.kinds import Pod, PodSpec
from reconcile.simulation import (
    BEHAVIOUR,
    STOP_SECONDS,
    Incident,
    IncidentStage,
    IncidentVerdict,
    Logic,
    ObservedChange,
    Observer,
    observe,
)
from reconcile.testing import LateTransport

from ..controller import make_controller
from ..models import HeadGroupSpec, RayCluster, RayClusterSpec, WorkerGroupSpec
from ..pod_plan import plan_group
from ..ray_pod_view import CLUSTER_LABEL, GROUP_LABEL
from .original import plan_group_like_v1_3_0

GROUP = "small"
BYSTANDERS = 5
OWN_SHARE = 8
PATIENCE = 30.0
TICK = 0.05


@frozen
class ScaleDownScenario:
    """Times in seconds; `flood` and `flood_heard` in events a second.

    The observer must see `flood_heard` events: otherwise the incident was not played. Watches of the
    controller lag by `lag`, least and most. Each act has its own `cluster`, since pods of the other may still
    be ending.
    """

    workers: int = 5
    goal: int = 4
    stop_seconds: float = 5.0
    lag: tuple[float, float] = field(default=(0.2, 1.0))
    flood: float = 250.0
    flood_heard: float = 200.0
    seconds: float = 9.0
    cluster: str = "raycluster-demo"


RESTART = ScaleDownScenario(
    workers=10,
    goal=9,
    stop_seconds=1.5,
    flood=0.0,
    flood_heard=0.0,
    seconds=2.5,
    cluster="raycluster-restart",
)
"""The second act: the manager is killed while the surplus worker ends, and another one takes over."""


@frozen
class WorkerCounts:
    """What was observed after the order to scale; `events` are changes of any pod."""

    deleted: int
    created: int
    events: int
    seconds: float
    complete: bool


async def play(
    stage: IncidentStage,
    logic: Logic,
    scenario: ScaleDownScenario = ScaleDownScenario(),
    restart: ScaleDownScenario | None = RESTART,
) -> IncidentVerdict:
    """Scale Ready workers down by one, under a flood, with late watches; count deletions and creations.

    Then by one again, with the manager killed in between (`restart`; None omits that).
    """
    started = anyio.current_time()
    counted = await _act(stage, logic, scenario, _scale_down)
    again = None if restart is None else await _act(stage, logic, restart, _scale_down_across_a_restart)
    verdict = _judge(counted, scenario, anyio.current_time() - started)
    return verdict if restart is None or again is None else _with_restart(verdict, again, restart)


async def _act(
    stage: IncidentStage, logic: Logic, scenario: ScaleDownScenario, scale_down: "Act"
) -> WorkerCounts | None:
    """The life of one cluster; None if its workers did not become Ready."""
    user = stage.user
    async with observe(stage.observer, Pod, namespace=stage.namespace, clock=stage.clock) as observer:
        stage.report(f"making a cluster with {scenario.workers} workers")
        cluster = await user.create(_cluster(stage.namespace, scenario))
        if scenario.flood:
            for number in range(BYSTANDERS):
                await user.create(_bystander(stage.namespace, number))
        counted = await scale_down(_Play(stage, logic, scenario, observer, user))
        await user.delete(cluster)
    return counted


@frozen
class _Play:
    stage: IncidentStage
    logic: Logic
    scenario: ScaleDownScenario
    observer: Observer
    user: Client

    async def ready(self) -> bool:
        return await self.observer.until(lambda: len(self.workers()) == self.scenario.workers, PATIENCE)

    def workers(self) -> set[str]:
        return {pod.uid for pod in self.observer.ready(Pod) if _is_worker(pod, self.scenario)}

    def counted(self, before: set[str], mark: int, started: float) -> WorkerCounts:
        """Counts the changes from the index `mark` on."""
        changes, seconds = self.observer.changes[mark:], anyio.current_time() - started
        gone, new = count_pods(changes, before, self.scenario)
        return WorkerCounts(len(gone), len(new), len(changes), seconds, self.observer.complete)

    async def order(self) -> None:
        goal, namespace = self.scenario.goal, self.stage.namespace
        await self.user.modify(RayCluster, self.scenario.cluster, namespace, lambda old: _scaled(old, goal))

    def manager(self) -> Manager:
        stage = self.stage
        planner = plan_group if self.logic == "ours" else plan_group_like_v1_3_0(stage.clock.random)
        late = LateTransport(stage.transport, stage.seed(), lag=self.scenario.lag)
        return Manager(make_controller(planner=planner), transport=late, **stage.manager_options)


Act = Callable[[_Play], Awaitable[WorkerCounts | None]]


async def _scale_down(play: _Play) -> WorkerCounts | None:
    stage, scenario, observer = play.stage, play.scenario, play.observer
    async with play.manager():
        if not await play.ready():
            return None
        before, mark = play.workers(), len(observer.changes)
        started = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(_flood, stage, observer, scenario.flood)
            stage.report(f"scaling to {scenario.goal} under {scenario.flood:g} events a second")
            await play.order()
            await anyio.sleep(scenario.seconds)
            group.cancel_scope.cancel()
        return play.counted(before, mark, started)


async def _scale_down_across_a_restart(play: _Play) -> WorkerCounts | None:
    observer, scenario = play.observer, play.scenario
    async with anyio.create_task_group() as first:
        await first.start(play.manager().run)
        if not await play.ready():
            first.cancel_scope.cancel()
            return None
        before, mark = play.workers(), len(observer.changes)
        started = anyio.current_time()
        play.stage.report(f"scaling to {scenario.goal}, and killing the manager while a worker ends")
        await play.order()
        await observer.until(lambda: bool(count_pods(observer.changes[mark:], before, scenario)[0]), PATIENCE)
        # As a process that is killed: no time to stop in.
        first.cancel_scope.cancel()
    async with play.manager():
        await anyio.sleep(scenario.seconds)
        return play.counted(before, mark, started)


def count_pods(
    changes: Sequence[ObservedChange], before: set[str], scenario: ScaleDownScenario
) -> tuple[set[str], set[str]]:
    """The uids of the workers that were deleted (marked or gone), and of those created since `before`."""
    pods = [change for change in changes if _is_worker(change.last, scenario)]
    gone = {change.last.uid for change in pods if change.new is None or change.new.terminating}
    return gone, {change.last.uid for change in pods} - before


def _judge(counted: WorkerCounts | None, scenario: ScaleDownScenario, seconds: float) -> IncidentVerdict:
    if counted is None:
        why = f"the {scenario.workers} workers were not Ready within {PATIENCE:g} s"
        return IncidentVerdict(ok=False, seconds=seconds, explanation=why)
    rate = counted.events / counted.seconds
    explanation = f"{rate:.0f} events a second"
    if rate < scenario.flood_heard:
        explanation += f", fewer than the {scenario.flood_heard:g} that belong to the incident"
    if not counted.complete:
        explanation += "; the observer lost a watch, so its counts are not to be trusted"
    return IncidentVerdict(
        ok=_is_right(counted, scenario) and rate >= scenario.flood_heard,
        deleted=counted.deleted,
        created=counted.created,
        seconds=round(seconds, 1),
        explanation=explanation,
    )


def _is_right(counted: WorkerCounts, scenario: ScaleDownScenario) -> bool:
    surplus = scenario.workers - scenario.goal
    return (counted.deleted, counted.created) == (surplus, 0) and counted.complete


def _with_restart(
    verdict: IncidentVerdict, counted: WorkerCounts, scenario: ScaleDownScenario
) -> IncidentVerdict:
    what = f"{counted.deleted} deleted, {counted.created} created"
    said = f"{scenario.workers} to {scenario.goal} with the manager killed meanwhile: {what}"
    ok = verdict.ok and _is_right(counted, scenario)
    return evolve(verdict, ok=ok, explanation=f"{verdict.explanation}; {said}")


# --- the flood --------------------------------------------------------------------------------------


async def _flood(stage: IncidentStage, observer: Observer, rate: float) -> None:
    """Change labels, annotations and status of pods; one pod in `OWN_SHARE` is the cluster's own."""
    client = Client(stage.transport, field_manager="demo-flood", clock=stage.clock)
    started, sent = anyio.current_time(), 0
    while True:
        due = int((anyio.current_time() - started) * rate)
        own = [_reference(pod) for pod in observer.objects(Pod) if CLUSTER_LABEL in pod.labels]
        for number in range(sent, due):
            bystander = _bystander(stage.namespace, number % BYSTANDERS)
            await _touch(
                client, own[number // OWN_SHARE % len(own)] if number % OWN_SHARE == 0 else bystander, number
            )
        sent = due
        await anyio.sleep(TICK)


async def _touch(client: Client, pod: Pod, number: int) -> None:
    said = str(number)
    try:
        match number % 3:
            case 0:
                await client.raw.merge(pod, {"metadata": {"labels": {"demo/flood": said}}}, guard={})
            case 1:
                await client.raw.merge(pod, {"metadata": {"annotations": {"demo/flood": said}}}, guard={})
            case _:
                await client.raw.merge(pod, {"status": {"message": said}}, guard={}, subresource="status")
    except NotFound:
        # It has ended meanwhile; at the next tick the observer knows.
        return


def _bystander(namespace: str, number: int) -> Pod:
    """A pod that is not the cluster's; simulated nodes leave it pending."""
    metadata = ObjectMeta(f"bystander-{number}", namespace, annotations={BEHAVIOUR: "pending"})
    return Pod(metadata=metadata, spec=PodSpec(containers=({"name": "idle", "image": "pause"},)))


# --- the cluster ------------------------------------------------------------------------------------


def _cluster(namespace: str, scenario: ScaleDownScenario) -> RayCluster:
    slow_to_stop = {"annotations": {STOP_SECONDS: f"{scenario.stop_seconds:g}"}}
    workers = WorkerGroupSpec(
        group_name=GROUP,
        replicas=scenario.workers,
        max_replicas=2 * scenario.workers,
        template={"metadata": slow_to_stop, "spec": _pod_spec("ray-worker")},
    )
    head = HeadGroupSpec(template={"spec": _pod_spec("ray-head")})
    return RayCluster(metadata=ObjectMeta(scenario.cluster, namespace), spec=RayClusterSpec(head, (workers,)))


def _pod_spec(container: str) -> dict[str, Any]:
    return {"containers": [{"name": container, "image": "rayproject/ray:2.52.0"}]}


def _scaled(cluster: RayCluster, replicas: int) -> RayCluster:
    group = evolve(cluster.spec.worker_group_specs[0], replicas=replicas)
    spec = evolve(cluster.spec, worker_group_specs=(group,))
    return RayCluster(metadata=cluster.metadata, spec=spec, status=cluster.status)


def _is_worker(pod: Snapshot, scenario: ScaleDownScenario) -> bool:
    return (pod.labels.get(CLUSTER_LABEL), pod.labels.get(GROUP_LABEL)) == (scenario.cluster, GROUP)


def _reference(pod: Snapshot) -> Pod:
    return Pod(metadata=ObjectMeta(pod.key.name, pod.key.namespace))


incident = Incident(
    name="worker-group-scale-down",
    title="scaling a worker group down by one deletes one worker (KubeRay 3286)",
    play=play,
    seconds=36,
)
