"""KubeRay's incident of 2025 (ray-project/kuberay#3286): scaling down by one took more than one worker."""

from collections.abc import Sequence
from typing import Any

import anyio
from attrs import evolve, field, frozen

from reconcile import Client, Manager, NotFound, ObjectMeta, Snapshot
from reconcile.incidents import Change, Incident, Logic, Observer, Stage, Verdict, observe
from reconcile.kinds import Pod, PodSpec
from reconcile.nodes import BEHAVIOUR, STOP_SECONDS
from reconcile.testing import LateTransport

from .controller import make_controller
from .models import HeadGroupSpec, RayCluster, RayClusterSpec, WorkerGroupSpec
from .views import CLUSTER_LABEL, GROUP_LABEL, pod_view

CLUSTER = "raycluster-demo"
GROUP = "small"
BYSTANDERS = 5
OWN_SHARE = 8
PATIENCE = 30.0
TICK = 0.05


@frozen
class Scenario:
    """How hard the incident is played. Times in seconds.

    `flood` events a second are sent, of which the observer must hear `flood_heard`: without them
    the incident was not played. The watches of the controller lag by `lag`, least and most.
    """

    workers: int = 5
    goal: int = 4
    stop_seconds: float = 5.0
    lag: tuple[float, float] = field(default=(0.2, 1.0))
    flood: float = 250.0
    flood_heard: float = 200.0
    seconds: float = 9.0


@frozen
class Counted:
    """What the observer heard from the order to scale on; `events` are changes of any pod."""

    deleted: int
    created: int
    events: int
    seconds: float
    complete: bool


async def play(stage: Stage, logic: Logic, scenario: Scenario = Scenario()) -> Verdict:
    """Scale Ready workers down by one, under a flood, on a late watch; count what goes and comes."""
    started = anyio.current_time()
    user = Client(stage.observer, field_manager="demo-user", clock=stage.clock)
    async with observe(stage.observer, Pod, namespace=stage.namespace, clock=stage.clock) as observer:
        async with _manager(stage, logic, scenario):
            stage.report(f"making a cluster with {scenario.workers} workers")
            cluster = await user.create(_cluster(stage.namespace, scenario))
            for number in range(BYSTANDERS):
                await user.create(_bystander(stage.namespace, number))
            if not await observer.until(lambda: len(_ready_workers(observer)) == scenario.workers, PATIENCE):
                why = f"the {scenario.workers} workers were not Ready within {PATIENCE:g} s"
                return Verdict(ok=False, seconds=anyio.current_time() - started, explanation=why)
            counted = await _scale_down(stage, observer, user, scenario)
        await user.delete(cluster)
    return _judge(counted, scenario, anyio.current_time() - started)


def _manager(stage: Stage, logic: Logic, scenario: Scenario) -> Manager:
    seed = int(stage.clock.random() * 2**32)
    transport = LateTransport(stage.transport, seed, lag=scenario.lag)
    return Manager(
        make_controller(logic),
        transport=transport,
        namespace=stage.namespace,
        clock=stage.clock,
        stop_seconds=1.0,
    )


async def _scale_down(stage: Stage, observer: Observer, user: Client, scenario: Scenario) -> Counted:
    before, mark = {pod.uid for pod in _ready_workers(observer)}, len(observer.changes)
    started = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(_flood, stage, observer, scenario.flood)
        stage.report(f"scaling to {scenario.goal} under {scenario.flood:g} events a second")
        await user.modify(RayCluster, CLUSTER, stage.namespace, lambda old: _scaled(old, scenario.goal))
        await anyio.sleep(scenario.seconds)
        group.cancel_scope.cancel()
    changes, seconds = observer.changes[mark:], anyio.current_time() - started
    gone, new = count_pods(changes, before)
    return Counted(len(gone), len(new), len(changes), seconds, observer.complete)


def count_pods(changes: Sequence[Change], before: set[str]) -> tuple[set[str], set[str]]:
    """The uids of the workers that were deleted, marked or gone, and of those made since `before`."""
    pods = [change for change in changes if _is_worker(change.last)]
    gone = {change.last.uid for change in pods if change.new is None or change.new.terminating}
    return gone, {change.last.uid for change in pods} - before


def _judge(counted: Counted, scenario: Scenario, seconds: float) -> Verdict:
    surplus = scenario.workers - scenario.goal
    rate = counted.events / counted.seconds
    explanation = f"{rate:.0f} events a second"
    if rate < scenario.flood_heard:
        explanation += f", fewer than the {scenario.flood_heard:g} that belong to the incident"
    if not counted.complete:
        explanation += "; the observer lost a watch, so its counts are not to be trusted"
    right = (counted.deleted, counted.created) == (surplus, 0)
    return Verdict(
        ok=right and counted.complete and rate >= scenario.flood_heard,
        deleted=counted.deleted,
        created=counted.created,
        seconds=round(seconds, 1),
        explanation=explanation,
    )


# --- the flood --------------------------------------------------------------------------------------


async def _flood(stage: Stage, observer: Observer, rate: float) -> None:
    """Labels, annotations and status of pods change: one in `OWN_SHARE` is the cluster's own."""
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
                await client.merge(pod, {"metadata": {"labels": {"demo/flood": said}}}, guard={})
            case 1:
                await client.merge(pod, {"metadata": {"annotations": {"demo/flood": said}}}, guard={})
            case _:
                await client.merge(pod, {"status": {"message": said}}, guard={}, subresource="status")
    except NotFound:
        # It has ended meanwhile; at the next tick the observer knows.
        return


def _bystander(namespace: str, number: int) -> Pod:
    """A pod in the namespace that is not the cluster's, and that no node takes."""
    metadata = ObjectMeta(f"bystander-{number}", namespace, annotations={BEHAVIOUR: "pending"})
    return Pod(metadata=metadata, spec=PodSpec(containers=({"name": "idle", "image": "pause"},)))


# --- the cluster ------------------------------------------------------------------------------------


def _cluster(namespace: str, scenario: Scenario) -> RayCluster:
    slow_to_stop = {"annotations": {STOP_SECONDS: f"{scenario.stop_seconds:g}"}}
    workers = WorkerGroupSpec(
        group_name=GROUP,
        replicas=scenario.workers,
        max_replicas=2 * scenario.workers,
        template={"metadata": slow_to_stop, "spec": _pod_spec("ray-worker")},
    )
    head = HeadGroupSpec(template={"spec": _pod_spec("ray-head")})
    return RayCluster(metadata=ObjectMeta(CLUSTER, namespace), spec=RayClusterSpec(head, (workers,)))


def _pod_spec(container: str) -> dict[str, Any]:
    return {"containers": [{"name": container, "image": "rayproject/ray:2.52.0"}]}


def _scaled(cluster: RayCluster, replicas: int) -> RayCluster:
    group = evolve(cluster.spec.worker_group_specs[0], replicas=replicas)
    spec = evolve(cluster.spec, worker_group_specs=(group,))
    return RayCluster(metadata=cluster.metadata, spec=spec, status=cluster.status)


def _ready_workers(observer: Observer) -> list[Snapshot]:
    workers = [pod for pod in observer.objects(Pod) if _is_worker(pod)]
    return [pod for pod in workers if pod_view(pod.to_dict()).ready]


def _is_worker(pod: Snapshot) -> bool:
    return pod.labels.get(GROUP_LABEL) == GROUP


def _reference(pod: Snapshot) -> Pod:
    return Pod(metadata=ObjectMeta(pod.key.name, pod.key.namespace))


incident = Incident(
    name="worker-group-scale-down",
    title="scaling a worker group down by one deletes one worker (KubeRay 3286)",
    play=play,
)
