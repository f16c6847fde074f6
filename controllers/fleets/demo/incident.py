"""AIBrix's incident of 2025 (vllm-project/aibrix#986): an autoscaler could not size a fleet."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from attrs import frozen

from reconcile import Client, Controller, HttpRequest, LabelSelector, Manager, ObjectMeta, Transport
from reconcile.kinds import Pod
from reconcile.simulation import Incident, IncidentStage, IncidentVerdict, Logic
from reconcile.testing import LateTransport

from ...workergroups import make_controller as make_cluster_controller
from ..fleet import make_fleet_controller
from ..models import ClusterTemplate, FleetSpec, RayClusterFleet, RollingUpdate, Strategy
from ..replica_set import make_set_controller
from .original import FleetWithoutScale, without_scale

FLEET = "fleet-demo"
LABELS = {"app": FLEET}
DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayclusterfleets.orchestration.aibrix.ai"
)
MERGE_PATCH = "application/merge-patch+json"
TICK = 0.1


@frozen
class HpaScenario:
    """The sizes that the autoscaler sets, starting from 1, with the verb; each has `patience` seconds."""

    steps: tuple[tuple[int, str], ...] = ((4, "PUT"), (2, "PATCH"), (0, "PUT"), (1, "PATCH"))
    patience: float = 12.0


class ScaleRefused(Exception):
    """The server did not answer as an autoscaler needs it."""


async def play(stage: IncidentStage, logic: Logic, scenario: HpaScenario = HpaScenario()) -> IncidentVerdict:
    """Size a fleet through /scale as the HorizontalPodAutoscaler controller does, to 0 and back."""
    started = anyio.current_time()
    user = stage.user
    async with _defined(stage.observer, logic), _manager(stage, logic):
        stage.report("making a fleet of 1")
        fleet = await user.create(_fleet(stage.namespace))
        try:
            explanation = await _autoscale(stage, user, scenario)
            ok = True
        except ScaleRefused as refused:
            explanation, ok = str(refused), False
        await user.delete(fleet)
    return IncidentVerdict(ok=ok, seconds=round(anyio.current_time() - started, 1), explanation=explanation)


async def _autoscale(stage: IncidentStage, user: Client, scenario: HpaScenario) -> str:
    autoscaler = HpaClient(stage.observer, f"{_path(stage.namespace)}/{FLEET}/scale")
    await _reached(autoscaler, user, stage.namespace, 1, scenario.patience)
    for wanted, verb in scenario.steps:
        stage.report(f"{verb} of /scale: {wanted}")
        scale = await autoscaler.ask("GET")
        if verb == "PUT":
            await autoscaler.ask("PUT", {**scale, "spec": {"replicas": wanted}})
        else:
            await autoscaler.ask("PATCH", {"spec": {"replicas": wanted}})
        await _reached(autoscaler, user, stage.namespace, wanted, scenario.patience)
    numbers = " to ".join(str(number) for number in (1, *(wanted for wanted, _ in scenario.steps)))
    return f"{numbers}, each time with as many pods selected as replicas"


@frozen
class HpaClient:
    """Reads and writes the /scale of a target, as the HorizontalPodAutoscaler controller does."""

    transport: Transport
    path: str

    async def ask(self, method: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the Scale. Raises ScaleRefused."""
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        headers = {"accept": "application/json", "content-type": kind}
        encoded = None if body is None else msgspec.json.encode(body)
        answer = await self.transport.request(HttpRequest(method, self.path, {}, headers, encoded))
        said: dict[str, Any] = msgspec.json.decode(answer.body)
        if answer.status >= 400:
            raise ScaleRefused(
                f"FailedGetScale: {method} {self.path}: {answer.status} {said.get('message', '')}"
            )
        return said


async def _reached(autoscaler: HpaClient, user: Client, namespace: str, wanted: int, patience: float) -> None:
    """Wait until replicas and selected pods are that many. Raises ScaleRefused."""
    seen = "nothing"
    with anyio.move_on_after(patience):
        while True:
            scale = await autoscaler.ask("GET")
            said, selector = scale["status"].get("replicas", 0), scale["status"].get("selector", "")
            if selector:
                pods = [
                    pod for pod in await user.list(Pod, namespace, labels=selector) if not pod.terminating
                ]
                seen = f"{said} replicas and {len(pods)} pods selected"
                if said == len(pods) == wanted == scale["spec"].get("replicas", 0):
                    return
            await anyio.sleep(TICK)
    raise ScaleRefused(f"{wanted} replicas were not reached within {patience:g} s: {seen}")


# --- what is played with ------------------------------------------------------------------------------------


@asynccontextmanager
async def _defined(transport: Transport, logic: Logic) -> AsyncIterator[None]:
    """Remove /scale from the definition for the original, until the context ends."""
    if logic == "ours":
        yield
        return
    before = await _definition(transport)
    await _define(transport, without_scale(before))
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await _define(transport, before)


async def _definition(transport: Transport) -> dict[str, Any]:
    answer = await transport.request(HttpRequest("GET", DEFINITION, {}, {"accept": "application/json"}))
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return found


async def _define(transport: Transport, definition: dict[str, Any]) -> None:
    metadata = {**definition["metadata"]}
    metadata["resourceVersion"] = (await _definition(transport))["metadata"]["resourceVersion"]
    body = msgspec.json.encode({**definition, "metadata": metadata})
    headers = {"accept": "application/json", "content-type": "application/json"}
    answer = await transport.request(HttpRequest("PUT", DEFINITION, {}, headers, body))
    if answer.status >= 400:
        raise ScaleRefused(f"the definition could not be changed: {answer.body.decode()}")


def _manager(stage: IncidentStage, logic: Logic) -> Manager:
    fleets: Controller[Any] = make_fleet_controller(RayClusterFleet if logic == "ours" else FleetWithoutScale)
    return Manager(
        fleets,
        make_set_controller(),
        make_cluster_controller(),
        transport=LateTransport(stage.transport, stage.seed()),
        **stage.manager_options,
    )


def _path(namespace: str) -> str:
    return f"/apis/orchestration.aibrix.ai/v1alpha1/namespaces/{namespace}/rayclusterfleets"


def _fleet(namespace: str) -> RayClusterFleet:
    container = {"name": "ray-head", "image": "rayproject/ray"}
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}
    spec = FleetSpec(
        template=ClusterTemplate({"headGroupSpec": head}, {"labels": LABELS}),
        selector=LabelSelector(LABELS),
        strategy=Strategy("RollingUpdate", RollingUpdate(1, 0)),
    )
    return RayClusterFleet(metadata=ObjectMeta(FLEET, namespace), spec=spec)


incident = Incident(
    name="fleet-scaled-by-hpa",
    title="an autoscaler sizes a fleet through /scale, down to nothing and back (AIBrix 986)",
    play=play,
    seconds=5,
)
