"""The loop of kubero-dev/kubero#420, unmended: the storm guard finds, explains and slows it."""

import anyio
from attrs import frozen

from reconcile import Controller, Manager, ObjectMeta
from reconcile.kinds import Namespace, Secret
from reconcile.models import unstructured_kind
from reconcile.simulation import Incident, IncidentStage, IncidentVerdict, Logic, Observer, observe
from reconcile.testing import LateTransport

from ..models import KuberoPipeline
from .incident import PATIENCE, pipeline_of, pipelines_in, registry_login
from .original import make_original_controller

Event = unstructured_kind("events.k8s.io/v1", "Event", plural="events")

REASON = "ReconcileStorm"
PHASE = "test"


@frozen
class StormScenario:
    """Seconds until the storm must be reported, and seconds of calm after it with at most `writes`."""

    told: float = 12.0
    calm: float = 6.0
    told_original: float = 2.0
    calm_original: float = 3.0
    writes: int = 2

    def of(self, logic: Logic) -> tuple[float, float]:
        return (self.told, self.calm) if logic == "ours" else (self.told_original, self.calm_original)


async def play(
    stage: IncidentStage, logic: Logic, scenario: StormScenario = StormScenario()
) -> IncidentVerdict:
    """Let the original copy, with the storm guard or (as the control) without; count the writes."""
    started = anyio.current_time()
    told, seconds_of_calm = scenario.of(logic)
    user = stage.user
    async with observe(stage.observer, Secret, KuberoPipeline, Event, clock=stage.clock) as observer:
        await user.create(registry_login(stage.namespace))
        async with Manager(
            controller_in_a_storm(logic),
            transport=LateTransport(stage.transport, stage.seed()),
            **stage.manager_options,
        ) as manager:
            stage.report("Kubero's copy loop, as it was")
            pipeline = await user.create(pipeline_of(stage.namespace, "copy", [PHASE]))
            note = await _told(observer, stage.namespace, told)
            stage.report(f"{'caught' if note else 'not caught'}; counting writes for {seconds_of_calm:g} s")
            before = len(observer.changes)
            await anyio.sleep(seconds_of_calm)
            heard = [one for one in observer.changes[before:] if one.kind is Secret]
            writes = sum(one.key.namespace in _namespaces(stage.namespace) for one in heard)
            explained = _explained(manager)
            await user.delete(pipeline)
            await observer.until(lambda: not pipelines_in(observer, stage.namespace), PATIENCE)
    await user.delete(Namespace(metadata=ObjectMeta(_namespaces(stage.namespace)[1])))
    calm = writes <= scenario.writes and observer.complete
    seconds = round(anyio.current_time() - started, 1)
    what = f"{writes} changes of Secrets in {seconds_of_calm:g} s; {note or 'nobody was told of a storm'}"
    return IncidentVerdict(
        ok=calm and bool(note) and note == explained, writes=writes, seconds=seconds, explanation=what
    )


def controller_in_a_storm(logic: Logic) -> Controller[KuberoPipeline]:
    return make_original_controller(detect_storms=logic == "ours")


async def _told(observer: Observer, namespace: str, seconds: float) -> str:
    """The note of the Warning event; empty if there is none in time."""

    def notes() -> list[str]:
        events = [one.to_dict() for one in observer.objects(Event) if one.key.namespace == namespace]
        return [str(one.get("note", "")) for one in events if one.get("reason") == REASON]

    await observer.until(lambda: bool(notes()), seconds)
    return next(iter(notes()), "")


def _explained(manager: Manager) -> str:
    """The text that `reconcile explain` shows."""
    controllers = manager.state()["controllers"]
    storms = [storm["message"] for one in controllers.values() for storm in one["storms"].values()]
    return next(iter(storms), "")


def _namespaces(namespace: str) -> tuple[str, str]:
    return namespace, f"{namespace}-copy-{PHASE}"


incident = Incident(
    name="storm-caught",
    title="a copy loop is caught, explained and slowed down within seconds (Kubero 420)",
    play=play,
    seconds=16,
)
