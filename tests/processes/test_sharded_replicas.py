"""Replicas that share all objects, over HTTPS, while chance kills, freezes, cuts off and stops them.

Objects change all the time. Each generation of an object has an effect in a ledger outside, which would take
it twice. What is asserted is what the server and the ledger wrote down.
"""

import json
import os
import random
import signal
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import frozen

from informers.kubernetes import connect
from reconcile import Client, ObjectMeta
from reconcile.client.buckets import Buckets
from reconcile.kinds import Namespace
from reconcile.models import definition_of
from reconcile.sharding.assignment import Assignment
from reconcile.sharding.ring import ASSIGNMENT
from tests.helpers.managers import Toy, ToySpec
from tests.helpers.tasks import beside
from tests.processes import replica
from tests.processes.harness import Machine, machine
from tests.processes.ledger import Entry, entries_of
from tests.processes.recording_server import CHANGES, Asked, asked_of
from tests.processes.sharded_replica import BUCKETS, NAMESPACE, TERMS
from tests.processes.sharded_ring import FAULTS, Place, Ring, identity_of
from tests.processes.tcp_proxy import proxying

SECONDS = float(os.environ.get("RING_SECONDS", "60"))
"""For so long faults happen; ten minutes are the full length."""
SEED = int(os.environ.get("RING_SEED", "1"))

REPLICAS = 5
STARTS = 40 + int(SECONDS / 5)
"""Replicas that may run at one place, one after the other."""
NAMES = [f"t{number}" for number in range(60)]
PAUSE = 0.05
"""Seconds between two changes of objects."""
RESTED = TERMS.duration + 10
"""Seconds after the last fault in which all objects are worked on; usually it is less than one."""
ON_ITS_WAY = 1.0
"""Seconds that a frozen process takes at most to send what it was about to send."""

pytestmark = pytest.mark.timeout(SECONDS + 150)


@frozen
class Owned:
    """The owners of all buckets since a time."""

    since: float
    owners: Sequence[str]


@frozen
class Played:
    """What the server and the ledger wrote down; `sizes` and `states` are at the end, by name."""

    ring: Ring
    entries: Sequence[Entry]
    asked: Sequence[Asked]
    history: Sequence[Owned]
    sizes: Mapping[str, int]
    states: Mapping[str, Toy]
    rest: float

    @property
    def effects(self) -> Sequence[Entry]:
        return [entry for entry in self.entries if entry.effect and not entry.refused]

    @property
    def late_writes(self) -> Sequence[Asked]:
        """What a replica wrote in a bucket while another owned it."""
        since, buckets = [owned.since for owned in self.history], Buckets(BUCKETS)
        found: list[Asked] = []
        for asked in self.asked:
            name = asked.path.removesuffix("/status").rpartition("/")[2].removeprefix("of-")
            if asked.committed and asked.user.startswith("r") and name in self.states:
                owned = self.history[bisect_right(since, asked.at) - 1]
                if owned.owners[buckets.of(self.states[name].uid)] != asked.user:
                    found.append(asked)
        return found

    def was_on_its_way(self, asked: Asked) -> bool:
        """Whether the replica had just been thawed: it may have stood between its last look and its send."""
        return any(
            fault.identity == asked.user
            and fault.kind == "frozen"
            and 0 < asked.at - fault.ended < ON_ITS_WAY
            for fault in self.ring.faults
            if fault.identity == asked.user and fault.kind == "frozen"
        )

    def __str__(self) -> str:
        faults = Counter(fault.kind for fault in self.ring.faults)
        ends = Counter(status for _, status in self.ring.exits)
        changes = sum(self.sizes.values()) - len(NAMES)
        refused = sum(entry.refused for entry in self.entries)
        return (
            f"{SECONDS:g} s of faults with seed {SEED}: {dict(faults)}, exit statuses {dict(ends)}; "
            f"{changes} changes of {len(NAMES)} objects, {len(self.effects)} effects, "
            f"{refused} visits of the ledger refused, {len(self.late_writes)} writes on their way; "
            f"{len(self.history)} assignments; "
            f"all worked on {self.rest:.1f} s after the last fault"
        )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with machine(tmp_path_factory.mktemp("ring")) as made:
        outcome = anyio.run(play, made)
        print(outcome)
        yield outcome


async def play(on: Machine) -> Played:
    folder, chance = on.folder / "ring", random.Random(SEED)
    users = [identity_of(place, start) for place in range(REPLICAS) for start in range(1, STARTS)]
    _, port = await on.serve(folder, users, changes=True)
    ledger = await on.keep_ledger(folder)
    transport = await connect(folder / "admin")
    client = Client(transport)
    await client.create(Namespace(metadata=ObjectMeta(NAMESPACE)))
    await client.apply(definition_of(Toy))
    for name in NAMES:
        await client.create(Toy(metadata=ObjectMeta(name, NAMESPACE)))
    sizes = dict.fromkeys(NAMES, 1)
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(proxying(port)) for _ in range(REPLICAS)]
        ring = Ring(on, folder, ledger, [Place(number, proxy) for number, proxy in enumerate(proxies)])
        async with beside(ring.tend):
            await until_rested(client, sizes)
            async with beside(change, client, sizes):
                await ring.trouble(chance, SECONDS)
            over = time.monotonic()
            await until_rested(client, sizes)
            rest = time.monotonic() - over
            await ring.stop()
    states = {toy.name: toy for toy in await client.list(Toy, NAMESPACE)}
    await transport.aclose()
    return Played(ring, entries_of(folder), asked_of(folder), history_of(folder), sizes, states, rest)


async def change(client: Client, sizes: dict[str, int]) -> None:
    """Change objects until cancelled; `sizes` are what they have then."""
    chance = random.Random(SEED)
    while True:
        name = chance.choice(NAMES)
        size = sizes[name] = sizes[name] + 1
        with anyio.CancelScope(shield=True):
            await client.modify(Toy, name, NAMESPACE, lambda toy, size=size: toy.replace(spec=ToySpec(size)))
        await anyio.sleep(PAUSE)


async def until_rested(client: Client, sizes: Mapping[str, int]) -> None:
    """Until each object's status shows its size."""
    with anyio.fail_after(60):
        while sizes != {toy.name: toy.status.size for toy in await client.list(Toy, NAMESPACE)}:
            await anyio.sleep(0.1)


def history_of(folder: Path) -> Sequence[Owned]:
    found: list[Owned] = []
    for line in (folder / CHANGES).read_text().splitlines():
        change: dict[str, Any] = json.loads(line)
        if change["plural"] == "leases":
            assignment = Assignment.from_text(change["object"]["metadata"]["annotations"][ASSIGNMENT])
            found.append(Owned(change["at"], [holding.owner for holding in assignment.holdings]))
    return found


def test_every_kind_of_fault_happened(played: Played) -> None:
    assert {fault.kind for fault in played.ring.faults} == set(FAULTS)


def test_no_generation_has_its_effect_twice(played: Played) -> None:
    times = Counter((entry.account, entry.effect) for entry in played.effects)
    assert {effect: count for effect, count in times.items() if count > 1} == {}


def test_an_epoch_of_an_object_belongs_to_one_replica(played: Played) -> None:
    holders: dict[tuple[str, int], set[str]] = defaultdict(set)
    for entry in played.entries:
        holders[entry.account, entry.epoch].add(entry.by)
    assert {epoch: names for epoch, names in holders.items() if len(names) > 1} == {}


def test_the_last_generation_of_each_object_has_its_effect_soon_after_the_last_fault(played: Played) -> None:
    last = {entry.account: entry.effect for entry in played.effects}
    assert last == {toy.uid: toy.metadata.generation for toy in played.states.values()}
    assert played.rest <= RESTED


def test_nothing_of_a_replica_is_committed_once_another_owns_the_bucket(played: Played) -> None:
    late = played.late_writes
    assert [write for write in late if not played.was_on_its_way(write)] == []
    assert max(Counter(write.user for write in late).values(), default=0) <= 1


def test_replicas_end_only_as_they_were_told_or_for_a_lost_lease(played: Played) -> None:
    killed = {fault.identity for fault in played.ring.faults if fault.kind == "killed"}
    told = {0, -signal.SIGTERM, replica.LOST}  # by the signal itself before it is listened to
    ends = [(one, status) for one, status in played.ring.exits if status not in told]
    assert [(one, status) for one, status in ends if one not in killed or status != -signal.SIGKILL] == []
