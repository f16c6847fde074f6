"""Kubero's incident of 2024 (kubero-dev/kubero#420): copying a registry Secret never came to an end."""

import base64
from collections import Counter
from collections.abc import Iterable, Mapping

import anyio
import msgspec
from attrs import evolve, frozen

from reconcile import Key, Manager, ObjectMeta, Snapshot
from reconcile.blocks import Consent
from reconcile.kinds import Namespace, Secret
from reconcile.simulation import (
    Incident,
    IncidentStage,
    IncidentVerdict,
    Logic,
    ObservedChange,
    Observer,
    observe,
)
from reconcile.testing import FaultyTransport, LateTransport

from ..controller import make_controller
from ..desired_copies import CREDENTIALS, PULL_SECRET, SOURCE_NAME
from ..models import KuberoPipeline, KuberoPipelineSpec, PipelinePhase, PipelineRegistry
from ..secret_contents import DOCKER_CONFIG_KEY, DOCKER_CONFIG_TYPE
from .original import make_original_controller

PHASES = ("test", "production")
MODES = ("copy", "create", "none")
HOST = "registry.example.com"
PATIENCE = 20.0


@frozen
class CopyScenario:
    """Seconds for a rotation, and seconds after it in which nothing may be written."""

    rotation: float = 4.0
    quiet: float = 16.0
    rotation_original: float = 2.0
    quiet_original: float = 5.0

    def of(self, logic: Logic) -> tuple[float, float]:
        if logic == "ours":
            return self.rotation, self.quiet
        return self.rotation_original, self.quiet_original


@frozen
class SecretCounts:
    """How often each Secret changed in the rotation; changes and requests in the quiet after it.

    A request may change nothing, and another writer may cause a change, so both must be 0.
    """

    rotated: dict[Key, int]
    changes: int
    requests: int
    seconds: float
    complete: bool


async def play(
    stage: IncidentStage, logic: Logic, scenario: CopyScenario = CopyScenario()
) -> IncidentVerdict:
    """Create a pipeline of each mode and rotate the source; count the writes during and after it."""
    started = anyio.current_time()
    user = stage.user
    recorded = FaultyTransport(stage.transport)
    async with observe(stage.observer, Secret, KuberoPipeline, clock=stage.clock) as observer:
        # Before the start: the original never notices a source that comes after its first pass.
        source = await user.create(registry_login(stage.namespace))
        async with _manager(stage, logic, recorded):
            stage.report(f"pipelines of the modes {', '.join(MODES)}, with {len(PHASES)} phases each")
            pipelines = [await user.create(pipeline_of(stage.namespace, mode)) for mode in MODES]
            counted = None
            if await observer.until(lambda: _is_done(observer, stage.namespace), PATIENCE):
                rotation, quiet = scenario.of(logic)
                stage.report(f"the Secrets are there; rotating the source, then counting for {quiet:g} s")
                before = len(observer.changes)
                await user.raw.merge(source, {"data": dict(_login("rotated"))}, guard={})
                await anyio.sleep(rotation)
                rotated = _by_secret(observer.changes[before:], stage.namespace)
                counted = await _count(observer, recorded, stage.namespace, quiet, rotated)
            for pipeline in pipelines:
                await user.delete(pipeline)
            await observer.until(lambda: not pipelines_in(observer, stage.namespace), PATIENCE)
    for mode in MODES:
        for name in _targets(stage.namespace, mode):
            await user.delete(Namespace(metadata=ObjectMeta(name)))
    seconds = round(anyio.current_time() - started, 1)
    if counted is None:
        why = f"the Secrets were not there within {PATIENCE:g} s"
        return IncidentVerdict(ok=False, seconds=seconds, explanation=why)
    return _judge(counted, stage.namespace, seconds)


def _manager(stage: IncidentStage, logic: Logic, recorded: FaultyTransport) -> Manager:
    return Manager(
        # As in Kubero, the pipelines of the incident are believed: what is played is the copying.
        make_controller(Consent.of_authors()) if logic == "ours" else make_original_controller(),
        transport=LateTransport(recorded, stage.seed()),
        **stage.manager_options,
    )


async def _count(
    observer: Observer, recorded: FaultyTransport, namespace: str, seconds: float, rotated: dict[Key, int]
) -> SecretCounts:
    before, sent = len(observer.changes), _sent(recorded)
    await anyio.sleep(seconds)
    heard = [change for change in observer.changes[before:] if _concerns(change, namespace)]
    return SecretCounts(rotated, len(heard), _sent(recorded) - sent, seconds, observer.complete)


def _sent(recorded: FaultyTransport) -> int:
    """Without Events, which are written beside the runs and come later."""
    return sum(not request.path.endswith("/events") for request in recorded.writes)


def _judge(counted: SecretCounts, namespace: str, seconds: float) -> IncidentVerdict:
    copies = _secrets(namespace, "copy")
    once = counted.rotated == dict.fromkeys(copies, 1)
    explanation = (
        f"a rotation changed {len(counted.rotated)} Secrets {sum(counted.rotated.values())} times, where "
        f"{len(copies)} copies follow the source; in the {counted.seconds:g} s after it "
        f"{counted.changes} changes of Secrets and pipelines were seen, and {counted.requests} asked for"
    )
    if not counted.complete:
        explanation += "; the observer lost a watch, so its counts are not to be trusted"
    return IncidentVerdict(
        ok=once and counted.changes == 0 and counted.requests == 0 and counted.complete,
        writes=counted.changes,
        seconds=seconds,
        explanation=explanation,
    )


# --- what is looked at --------------------------------------------------------------------------------


def _targets(namespace: str, mode: str) -> list[str]:
    return [f"{namespace}-{mode}-{phase}" for phase in PHASES]


def _secrets(namespace: str, mode: str) -> list[Key]:
    names = (PULL_SECRET, CREDENTIALS)
    return [Key(target, name) for target in _targets(namespace, mode) for name in names]


def _by_secret(changes: Iterable[ObservedChange], namespace: str) -> dict[Key, int]:
    phases = {target for mode in MODES for target in _targets(namespace, mode)}
    return dict(Counter(Key(*change.key) for change in changes if change.key.namespace in phases))


def _concerns(change: ObservedChange, namespace: str) -> bool:
    phases = [target for mode in MODES for target in _targets(namespace, mode)]
    return change.key.namespace in (namespace, *phases)


def _is_done(observer: Observer, namespace: str) -> bool:
    """Whether every Secret exists and each pipeline reports that it is ready."""
    there = {secret.key for secret in observer.objects(Secret)}
    wanted = {*_secrets(namespace, "copy"), *_secrets(namespace, "create")}
    ready = [one for one in observer.ready(KuberoPipeline) if one.key.namespace == namespace]
    return wanted <= there and len(ready) == len(MODES)


def pipelines_in(observer: Observer, namespace: str) -> list[Snapshot]:
    return [one for one in observer.objects(KuberoPipeline) if one.key.namespace == namespace]


# --- what is played with ------------------------------------------------------------------------------


def _login(password: str) -> Mapping[str, str]:
    """The data of Kubero's `registry-login`."""
    config = {"auths": {HOST: {"username": "demo", "password": password}}}
    text = {
        DOCKER_CONFIG_KEY: msgspec.json.encode(config),
        "username": b"demo",
        "password": password.encode(),
    }
    return {key: base64.b64encode(value).decode() for key, value in text.items()}


def registry_login(namespace: str) -> Secret:
    """The source of the copies."""
    metadata = ObjectMeta(SOURCE_NAME, namespace)
    return Secret(metadata=metadata, type=DOCKER_CONFIG_TYPE, data=_login("not-a-secret"))


def pipeline_of(namespace: str, mode: str, phases: Iterable[str] = PHASES) -> KuberoPipeline:
    registry = PipelineRegistry(create_secret=mode, host=HOST)
    if mode == "create":
        registry = evolve(registry, username="demo", password="not-a-secret")
    spec = KuberoPipelineSpec(
        name=f"{namespace}-{mode}",
        deploymentstrategy="git",
        mainnamespace=namespace,
        registry=registry,
        phases=tuple(PipelinePhase(name, enabled=True) for name in phases),
    )
    return KuberoPipeline(metadata=ObjectMeta(f"pipeline-{mode}", namespace), spec=spec)


incident = Incident(
    name="registry-secret-copy",
    title="copies of a registry Secret are written once a change, and then left in peace (Kubero 420)",
    play=play,
    seconds=30,
)
