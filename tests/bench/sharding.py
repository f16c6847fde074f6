"""What replicas carry that share all objects, beside one that has them all, and how fast buckets move.

A server and the replicas are processes of their own, over HTTPS. Objects are made while the ring is complete,
and then some of them are changed; a run writes a status. CPU and memory of a replica are counted above those
of the same replica without objects. A process that takes several changes at a time needs less CPU for each:
replicas are compared at a rate at which none does, and again while all objects are made in a burst. Then one
replica is stopped, one is started and one is killed.
"""

import asyncio
import multiprocessing
import random
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio
import msgspec
from attrs import define, field, frozen

from informers import SystemClock
from informers.kubernetes import connect
from reconcile import Client, Context, Controller, Manager, Object, ObjectMeta, resource
from reconcile.client.buckets import Buckets
from reconcile.controller.held_buckets import HeldBuckets
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.embedded.log import StoredChange
from reconcile.manager.leadership import LeaseTerms
from reconcile.models import definition_of
from reconcile.sharding import Sharding
from reconcile.sharding.assignment import Assignment, MemberRecord, Orders
from reconcile.sharding.planning import plan
from tests.bench._harness import Figures, best_us, resident

OBJECTS = 6_000
MADE_PER_SECOND = 250
CHANGES = 2_000
CHANGED_PER_SECOND = 50
BODY = 4_000
REPLICAS = 5
LEASE = LeaseTerms()
UIDS = 100_000
MEMBERS = {f"shop-operator-{number}": MemberRecord(beginning=1) for number in range(20)}
JOINED = {**MEMBERS, "shop-operator-new": MemberRecord(beginning=1)}
IDLE_SECONDS = 20.0
_SPAWN = multiprocessing.get_context("spawn")


@frozen
class CargoSpec:
    turn: int = 0
    body: str = ""


@frozen
class CargoStatus:
    turn: int = -1


@resource("bench.example.com/v1")
class Cargo(Object):
    spec: CargoSpec = CargoSpec()
    status: CargoStatus = CargoStatus()


# --- the server -----------------------------------------------------------------------------------


def _serve(kubeconfig: str, calls: Connection) -> None:
    anyio.run(_serving, kubeconfig, calls)


async def _serving(kubeconfig: str, calls: Connection) -> None:
    server = ApiServer(clock=SystemClock())
    client = Client(InProcessTransport(server))
    await client.apply(definition_of(Cargo))

    done: set[str] = set()
    shows = b""

    def note(change: StoredChange) -> None:
        if change.new is not None and shows and shows in change.new.body:
            done.add(change.new.key.name)

    async def fill(turn: int, count: int, per_second: float) -> None:
        """Bring so many objects to a turn, and wait until their statuses have it."""
        nonlocal shows
        done.clear()
        shows = msgspec.json.encode({"status": {"turn": turn}})[1:-1]
        began = time.monotonic()
        for number in range(count):
            spec, name = CargoSpec(turn, f"{turn:04}" * (BODY // 4)), f"cargo-{number}"
            if turn:
                patch = {"spec": {"turn": spec.turn, "body": spec.body}}
                await client.raw.merge(Cargo(metadata=ObjectMeta(name, "default")), patch, guard={})
            else:
                await client.create(Cargo(metadata=ObjectMeta(name, "default"), spec=spec))
            await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
        while len(done) < count:
            await asyncio.sleep(0.1)

    server.log.on_change(note)
    async with anyio.create_task_group() as tasks, serve(server) as face:
        write_kubeconfig(Path(kubeconfig), face.url, face.ca_pem, None)
        tasks.start_soon(server.run)
        await _answering(calls, fill=fill)
        tasks.cancel_scope.cancel()


async def _answering(calls: Connection, **functions: Any) -> None:
    """Answer calls of the process that measures, until it asks for an end."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    calls.send(None)
    loop.add_reader(calls.fileno(), asked.set)
    while True:
        await asked.wait()
        asked.clear()
        if not calls.poll():
            continue
        name, *arguments = calls.recv()
        if name == "end":
            return
        answer = functions[name](*arguments)
        calls.send(await answer if asyncio.iscoroutine(answer) else answer)


# --- a replica ------------------------------------------------------------------------------------


@frozen
class Use:
    cpu: float
    memory: int
    runs: int
    buckets: int


@define
class Observed:
    """What happens in a replica, by the machine's monotonic clock."""

    runs: int = 0
    held: dict[int, float] = field(factory=dict)
    closed: dict[int, float] = field(factory=dict)
    ran: dict[str, float] | None = None

    def use(self) -> Use:
        return Use(time.process_time(), resident(), self.runs, len(self.held))

    def note_runs(self) -> None:
        self.ran = {}

    async def run(self, ctx: Context[Cargo]) -> None:
        self.runs += 1
        if self.ran is not None:
            self.ran.setdefault(ctx.object.name, time.monotonic())
        ctx.status(turn=ctx.object.spec.turn)

    def watch_buckets(self) -> None:
        """Note when buckets are held and closed, of this process."""
        hold, close = HeldBuckets.hold, HeldBuckets.close

        def holds(held: HeldBuckets, bucket: int, epoch: int) -> None:
            hold(held, bucket, epoch)
            if held.only is None:
                self.held[bucket] = time.monotonic()

        def closes(held: HeldBuckets, buckets: Collection[int]) -> None:
            now = time.monotonic()
            close(held, buckets)
            for bucket in buckets:
                if held.only is None and self.held.pop(bucket, None):
                    self.closed[bucket] = now

        HeldBuckets.hold, HeldBuckets.close = holds, closes  # type: ignore[method-assign]


def _replicate(kubeconfig: str, identity: str, calls: Connection) -> None:
    anyio.run(_replicating, kubeconfig, identity, calls)


async def _replicating(kubeconfig: str, identity: str, calls: Connection) -> None:
    observed = Observed()
    observed.watch_buckets()
    transport = await connect(kubeconfig)
    controller = Controller(Cargo, observed.run)
    ring = Sharding("ring", identity=identity)
    manager = Manager(controller, transport=transport, sharding=ring, client_qps=0, environ={})
    async with manager:
        await _answering(
            calls,
            use=observed.use,
            held=lambda: dict(observed.held),
            closed=lambda: dict(observed.closed),
            ran=lambda: dict(observed.ran or {}),
            note_runs=observed.note_runs,
        )
    calls.send(observed.closed)
    await transport.aclose()


# --- the process that measures --------------------------------------------------------------------


@frozen
class Called:
    """Another process, which answers calls."""

    process: Any
    calls: Connection

    @classmethod
    def started(cls, target: Any, *arguments: str) -> "Called":
        here, there = _SPAWN.Pipe()
        process = _SPAWN.Process(target=target, args=(*arguments, there), daemon=True)
        process.start()
        called = cls(process, here)
        called.answer()
        return called

    def answer(self) -> Any:
        if not self.calls.poll(300):
            raise TimeoutError(f"{self.process} does not answer")
        return self.calls.recv()

    def __call__(self, name: str, *arguments: Any) -> Any:
        self.calls.send((name, *arguments))
        return self.answer()

    def end(self) -> None:
        self.calls.send(("end",))


@define
class Ring:
    """A server, and the replicas by their identities."""

    kubeconfig: str
    server: Called
    replicas: dict[str, Called] = field(factory=dict)

    def start(self, identity: str) -> None:
        self.replicas[identity] = Called.started(_replicate, self.kubeconfig, identity)

    def of_all(self, name: str) -> Mapping[str, Any]:
        return {identity: replica(name) for identity, replica in self.replicas.items()}

    def latest(self, name: str) -> Mapping[int, float]:
        """When something happened last to each bucket, in any replica."""
        found: dict[int, float] = {}
        for times in self.of_all(name).values():
            found |= {bucket: at for bucket, at in times.items() if at > found.get(bucket, 0.0)}
        return found

    def wait_until_even(self) -> None:
        """Wait until each replica holds its part of all buckets."""
        count = Buckets().count
        least = count // len(self.replicas)
        while True:
            sizes = [use.buckets for use in self.of_all("use").values()]
            if sum(sizes) == count and min(sizes) >= least:
                return
            time.sleep(0.2)


@contextmanager
def ring(replicas: int) -> Iterator[Ring]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        kubeconfig = str(Path(folder, "kubeconfig"))
        made = Ring(kubeconfig, Called.started(_serve, kubeconfig))
        stack.callback(lambda: [one.process.kill() for one in (made.server, *made.replicas.values())])
        for number in range(replicas):
            made.start(f"r{number}")
        made.wait_until_even()
        yield made


def used(made: Ring, work: Callable[[], None]) -> tuple[Sequence[Use], float]:
    """What each replica uses for some work, and how long that takes (s)."""
    before, began = made.of_all("use"), time.monotonic()
    work()
    taken = time.monotonic() - began
    return [
        Use(use.cpu - before[name].cpu, use.memory, use.runs - before[name].runs, use.buckets)
        for name, use in made.of_all("use").items()
    ], taken


def busiest(made: Ring, idle: Sequence[Use], *work: float) -> Use:
    """The most that a replica uses for a turn of objects, above what it uses at rest."""
    uses, seconds = used(made, lambda: made.server("fill", *work))
    pairs = list(zip(uses, idle, strict=True))
    return Use(
        cpu=max(use.cpu - base.cpu * seconds / IDLE_SECONDS for use, base in pairs),
        memory=max(use.memory - base.memory for use, base in pairs),
        runs=max(use.runs for use in uses),
        buckets=max(use.buckets for use in uses),
    )


@frozen
class Carried:
    """What the busiest replica uses to take all objects, then some changes; `base`: its memory without."""

    all: Use
    changes: Use
    base: int

    @classmethod
    def by(cls, made: Ring) -> "Carried":
        idle, _ = used(made, lambda: time.sleep(IDLE_SECONDS))
        return cls(
            busiest(made, idle, 0, OBJECTS, MADE_PER_SECOND),
            busiest(made, idle, 1, CHANGES, CHANGED_PER_SECOND),
            max(use.memory for use in idle),
        )


def hand_overs(made: Ring) -> Sequence[float]:
    """Milliseconds between the end of a bucket here and its begin there, as replicas come and go."""
    before = made.latest("held")
    made.start("more")
    made.wait_until_even()
    joined, ends = made.latest("held"), made.latest("closed")
    gaps = [joined[bucket] - ends[bucket] for bucket in joined if joined[bucket] != before[bucket]]
    leaving = made.replicas.pop("r1")
    leaving.end()
    ends = made.latest("closed") | leaving.answer()
    made.wait_until_even()
    held = made.latest("held")
    gaps += [held[bucket] - ends[bucket] for bucket in held if held[bucket] != joined[bucket]]
    return sorted(gap * 1000 for gap in gaps)


def seconds_after_kill(made: Ring) -> float:
    """From the kill of a replica until all its objects have been worked on by others."""
    identity, killed = made.replicas.popitem()
    buckets = frozenset(killed("held"))
    made.of_all("note_runs")
    at = time.monotonic()
    killed.process.kill()
    made.wait_until_even()
    time.sleep(3)
    held = made.latest("held")
    ran = {name: when for ran in made.of_all("ran").values() for name, when in ran.items()}
    assert ran, f"nothing of {identity} was worked on"
    return max(*ran.values(), *(held[bucket] for bucket in buckets)) - at


def planned() -> Figures:
    """Milliseconds of CPU time for one plan, at rest, as a member joins and at first, and for its text."""
    settled = plan(Assignment.empty(1024, 1), MEMBERS, Orders())
    text = settled.to_text()
    return {
        "sharding.plan_ms": best_us(lambda: plan(settled, MEMBERS, Orders()), 50) / 1000,
        "sharding.plan_of_a_joining_member_ms": best_us(lambda: plan(settled, JOINED, Orders()), 50) / 1000,
        "sharding.text_ms": best_us(lambda: Assignment.from_text(text).to_text(), 50) / 1000,
    }


def unevenness() -> float:
    """The most objects that a member has of what its part of 1,024 buckets is to have, among 20 members."""
    chance = random.Random(1)
    owners = [holding.owner for holding in plan(Assignment.empty(1024, 1), MEMBERS, Orders()).holdings]
    buckets, of = Buckets(1024), Counter(owners)
    uids = (str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(UIDS))
    objects = Counter(owners[buckets.of(uid)] for uid in uids)
    return max(objects[name] / (UIDS * of[name] / len(owners)) for name in MEMBERS)


def figures() -> Figures:
    with ring(1) as made:
        alone = Carried.by(made)
    with ring(REPLICAS) as made:
        most = Carried.by(made)
        gaps = hand_overs(made)
        killed = seconds_after_kill(made)
    return {
        "sharding.cpu_share": most.changes.cpu / alone.changes.cpu,
        "sharding.cpu_share_in_a_burst": most.all.cpu / alone.all.cpu,
        "sharding.memory_share": most.all.memory / alone.all.memory,
        "sharding.runs_share": most.changes.runs / alone.changes.runs,
        "sharding.cpu_alone_s": alone.changes.cpu,
        "sharding.memory_alone_mb": alone.all.memory / 2**20,
        "sharding.base_memory_mb": alone.base / 2**20,
        "sharding.hand_overs": float(len(gaps)),
        "sharding.hand_over_p50_ms": gaps[len(gaps) // 2],
        "sharding.hand_over_p99_ms": gaps[len(gaps) * 99 // 100],
        "sharding.seconds_after_kill": killed,
        "sharding.seconds_after_kill_above_lease": killed - LEASE.duration,
        "sharding.objects_max_over_mean": unevenness(),
        **planned(),
    }
