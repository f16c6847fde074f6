"""The operator under test: it does once, for each Fleet, everything that could be done twice.

Children whose names the server chooses and children with names of their own, a text by server-side apply,
a number stepped up through /scale and another one in an object, and something outside the cluster that its
finalizer takes away.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from attrs import frozen

from informers.kubeconfig import choose_context
from informers.kubeconfig_credentials import load
from informers.kubernetes import KubernetesTransport, Timeouts
from reconcile import Context, Controller, Intent, LeaderElection, Object, ObjectMeta, resource
from reconcile.kinds import ConfigMap, Deployment, DeploymentSpec, LabelSelector
from tests.processes import replica

NAMESPACE = "fleets"
LEASE = {"lease_seconds": 6.0, "renew_seconds": 4.0, "retry_seconds": 0.8}
"""Short, so that many leaders follow one another."""
TIMEOUTS = Timeouts(connect=3.0, answer=5.0, headers=4.0)
"""Short, so that requests that stall are given up while the run lasts."""

GENERATED, NAMED, TEXT, COUNTER = "generated", "named", "text", "counter"
"""The parts that a Fleet's ConfigMaps play, in their label `part`."""


@frozen
class FleetSpec:
    """`slots` children of either sort, two numbers stepped up to `goal`, and a text about `revision`."""

    slots: int = 0
    goal: int = 0
    revision: int = 0


@frozen
class FleetStatus:
    """What the last run saw done."""

    slots: int = 0
    revision: int = -1


@resource("chaos.example.com/v1")
class Fleet(Object):
    """One object that the driver makes, edits and deletes."""

    spec: FleetSpec
    status: FleetStatus = FleetStatus()


# --- outside the cluster ---------------------------------------------------------------------------


def take_hold(outside: Path, uid: str) -> None:
    """Hold something for an object, once; not again after it was let go."""
    (outside / uid).open("a").close()


def let_go(outside: Path, uid: str) -> None:
    """Hold it no more. A marker stays in its place, as of many services outside."""
    (outside / uid).write_text("gone")


def is_held(path: Path) -> bool:
    return path.exists() and path.read_text() != "gone"


# --- the controller --------------------------------------------------------------------------------


def text_of(revision: int) -> dict[str, str]:
    """The data that a Fleet's text has at a revision; some of its fields come and go."""
    return {"revision": str(revision), f"field-{revision % 3}": "there"}


async def keep(outside: Path, ctx: Context[Fleet]) -> None:
    fleet = ctx.object
    await ctx.run_sync(take_hold, outside, fleet.uid)
    children = await ctx.owned(ConfigMap)
    await _fill_generated(ctx, [one for one in children if one.metadata.labels.get("part") == GENERATED])
    await _fill_named(ctx, [one for one in children if one.metadata.labels.get("part") == NAMED])
    text = ObjectMeta(f"{fleet.name}-text", labels={"part": TEXT})
    await ctx.apply(Intent(ConfigMap, metadata=text, data=text_of(fleet.spec.revision)))
    await _scale_up(ctx)
    await _count_up(ctx, [one for one in children if one.metadata.labels.get("part") == COUNTER])
    ctx.status(slots=fleet.spec.slots, revision=fleet.spec.revision)


async def _fill_generated(ctx: Context[Fleet], children: list[ConfigMap]) -> None:
    filled = {child.metadata.labels["slot"]: child for child in children}
    slots = ctx.object.spec.slots
    for slot in map(str, range(slots)):
        if slot not in filled:
            labels = {"part": GENERATED, "slot": slot}
            await ctx.create(
                ConfigMap(metadata=ObjectMeta(generate_name=f"{ctx.object.name}-", labels=labels))
            )
    for slot, child in filled.items():
        if int(slot) >= slots:
            await ctx.delete(child)


async def _fill_named(ctx: Context[Fleet], children: list[ConfigMap]) -> None:
    filled = {child.name: child for child in children}
    names = {f"{ctx.object.name}-{slot}": str(slot) for slot in range(ctx.object.spec.slots)}
    for name, slot in names.items():
        if name not in filled:
            await ctx.create(ConfigMap(metadata=ObjectMeta(name, labels={"part": NAMED, "slot": slot})))
    for name, child in filled.items():
        if name not in names:
            await ctx.delete(child)


async def _scale_up(ctx: Context[Fleet]) -> None:
    """One step at a time, each from the number that was seen."""
    owned = await ctx.owned(Deployment)
    if not owned:
        labels = {"fleet": ctx.object.name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = DeploymentSpec(selector=LabelSelector(labels), template=template, replicas=0)
        owned = [await ctx.create(Deployment(metadata=ObjectMeta(ctx.object.name), spec=spec))]
    for replicas in range(owned[0].spec.replicas or 0, ctx.object.spec.goal):
        await ctx.client.raw.set_scale(owned[0], replicas + 1, expect=replicas)


async def _count_up(ctx: Context[Fleet], counters: list[ConfigMap]) -> None:
    """The same with a number in an object, which is read again before each step."""
    name, goal = f"{ctx.object.name}-count", ctx.object.spec.goal
    counter = counters[0] if counters else None
    if counter is None:
        metadata = ObjectMeta(name, labels={"part": COUNTER})
        counter = await ctx.create(ConfigMap(metadata=metadata, data={"count": "0"}))

    def step(found: ConfigMap) -> ConfigMap:
        count = int(found.data["count"])
        return found if count >= goal else found.replace(data={"count": str(count + 1)})

    for _ in range(int(counter.data["count"]), goal):
        await ctx.client.modify(ConfigMap, name, ctx.object.namespace or "", step)


async def drop(outside: Path, ctx: Context[Fleet]) -> None:
    await ctx.run_sync(let_go, outside, ctx.object.uid)


# --- the process -----------------------------------------------------------------------------------


def run(folder: Path, name: str) -> None:
    """One replica, until SIGTERM or until its Lease is lost; it goes through the proxy."""
    outside = folder / "outside"
    controller = Controller(
        Fleet, partial(keep, outside), cleanup=partial(drop, outside), owns=[ConfigMap, Deployment]
    )
    election = LeaderElection("lock", NAMESPACE, identity=name)
    reach = _reach(folder / f"{name}-through")
    replica.operate(folder, name, reach, controller, namespace=NAMESPACE, leader_election=election, **LEASE)


def _reach(kubeconfig: Path) -> Callable[[], Awaitable[KubernetesTransport]]:
    async def reach() -> KubernetesTransport:
        chosen = choose_context([kubeconfig], None)
        credentials = await load(chosen.paths, chosen.connection.context)
        return KubernetesTransport(chosen.connection, credentials, TIMEOUTS)

    return reach
