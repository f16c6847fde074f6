"""Kubero's incident of 2024 (kubero-dev/kubero#420): copying a registry Secret never came to an end."""

import base64

import anyio
import msgspec
from attrs import frozen

from reconcile import Client, Manager, ObjectMeta, Snapshot
from reconcile.incidents import Change, Incident, Logic, Observer, Stage, Verdict, observe
from reconcile.kinds import Namespace, Secret
from reconcile.testing import FaultyTransport, LateTransport

from .controller import make_controller
from .copies import COPY_NAMES, DOCKER_CONFIG_KEY, DOCKER_CONFIG_TYPE
from .models import KuberoPipeline, KuberoPipelineSpec, Phase, Registry
from .views import SOURCE_NAME

PIPELINE = "pipeline-demo"
PHASES = ("test", "production")
HOST = "registry.example.com"
PATIENCE = 20.0


@frozen
class Scenario:
    """For how many seconds nothing may be written; the control shows its storm in fewer."""

    quiet: float = 20.0
    quiet_original: float = 6.0


@frozen
class Counted:
    """After the copies were there: changes that the observer heard of, and requests for a change.

    A request may change nothing, and a change may need no request of the manager's; both must be 0.
    """

    changes: int
    requests: int
    seconds: float
    complete: bool


async def play(stage: Stage, logic: Logic, scenario: Scenario = Scenario()) -> Verdict:
    """Have a registry Secret copied into two phases; count what is written from then on."""
    started = anyio.current_time()
    quiet = scenario.quiet if logic == "ours" else scenario.quiet_original
    user = Client(stage.observer, field_manager="demo-user", clock=stage.clock)
    recorded = FaultyTransport(stage.transport)
    async with observe(stage.observer, Secret, KuberoPipeline, clock=stage.clock) as observer:
        # Before the start: the original never notices a source that comes after its first pass.
        await user.create(_source(stage.namespace))
        async with _manager(stage, logic, recorded):
            stage.report(f"copying a registry Secret into {len(PHASES)} phases")
            pipeline = await user.create(_pipeline(stage.namespace))
            counted = None
            if await observer.until(lambda: _is_done(observer, stage.namespace), PATIENCE):
                stage.report(f"the copies are there; counting writes for {quiet:g} s")
                counted = await _count(observer, recorded, stage.namespace, quiet)
            await user.delete(pipeline)
            await observer.until(lambda: _pipeline_of(observer, stage.namespace) is None, PATIENCE)
    for name in _targets(stage.namespace):
        await user.delete(Namespace(metadata=ObjectMeta(name)))
    seconds = round(anyio.current_time() - started, 1)
    if counted is None:
        why = f"the copies were not there within {PATIENCE:g} s"
        return Verdict(ok=False, seconds=seconds, explanation=why)
    return _judge(counted, seconds)


def _manager(stage: Stage, logic: Logic, recorded: FaultyTransport) -> Manager:
    seed = int(stage.clock.random() * 2**32)
    return Manager(
        make_controller(logic),
        transport=LateTransport(recorded, seed),
        namespace=stage.namespace,
        clock=stage.clock,
        stop_seconds=1.0,
    )


async def _count(observer: Observer, recorded: FaultyTransport, namespace: str, seconds: float) -> Counted:
    before, sent = len(observer.changes), _sent(recorded)
    await anyio.sleep(seconds)
    heard = [change for change in observer.changes[before:] if _concerns(change, namespace)]
    return Counted(len(heard), _sent(recorded) - sent, seconds, observer.complete)


def _sent(recorded: FaultyTransport) -> int:
    """Requests for a change; the Events that tell of one are written beside the runs, and come later."""
    return sum(not request.path.endswith("/events") for request in recorded.writes)


def _judge(counted: Counted, seconds: float) -> Verdict:
    explanation = (
        f"in {counted.seconds:g} s: {counted.changes} changes of Secrets and pipelines seen by the observer, "
        f"{counted.requests} requests for one by the controller"
    )
    if not counted.complete:
        explanation += "; the observer lost a watch, so its counts are not to be trusted"
    return Verdict(
        ok=counted.changes == 0 and counted.requests == 0 and counted.complete,
        writes=counted.changes,
        seconds=seconds,
        explanation=explanation,
    )


# --- what is looked at --------------------------------------------------------------------------------


def _targets(namespace: str) -> list[str]:
    return [f"{namespace}-{phase}" for phase in PHASES]


def _concerns(change: Change, namespace: str) -> bool:
    return change.key.namespace in (namespace, *_targets(namespace))


def _is_done(observer: Observer, namespace: str) -> bool:
    """Whether every copy is there and the pipeline says so itself: nothing is left to be done."""
    secrets = {secret.key for secret in observer.objects(Secret)}
    wanted = {(target, name) for target in _targets(namespace) for name in COPY_NAMES}
    pipeline = _pipeline_of(observer, namespace)
    if pipeline is None or not wanted <= secrets:
        return False
    conditions = (pipeline.to_dict().get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _pipeline_of(observer: Observer, namespace: str) -> Snapshot | None:
    found = [one for one in observer.objects(KuberoPipeline) if one.key == (namespace, PIPELINE)]
    return found[0] if found else None


# --- what is played with ------------------------------------------------------------------------------


def _source(namespace: str) -> Secret:
    login = {"auths": {HOST: {"username": "demo", "password": "not-a-secret"}}}
    return Secret(
        metadata=ObjectMeta(SOURCE_NAME, namespace),
        type=DOCKER_CONFIG_TYPE,
        data={DOCKER_CONFIG_KEY: base64.b64encode(msgspec.json.encode(login)).decode()},
    )


def _pipeline(namespace: str) -> KuberoPipeline:
    spec = KuberoPipelineSpec(
        name=namespace,
        deploymentstrategy="git",
        mainnamespace=namespace,
        registry=Registry(create_secret="copy", host=HOST),
        phases=tuple(Phase(name, enabled=True) for name in PHASES),
    )
    return KuberoPipeline(metadata=ObjectMeta(PIPELINE, namespace), spec=spec)


incident = Incident(
    name="registry-secret-copy",
    title="a copied registry Secret is written once and then left in peace (Kubero 420)",
    play=play,
)
