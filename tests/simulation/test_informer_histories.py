"""Whatever happens to objects and to connections, an informer tells of true states, in order, to the end."""

import os
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import anyio
import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import APIResource, AsyncHandler, Delta, Informer, Registration, Snapshot
from informers.loop_slices import LoopSlice
from reconcile.testing import VirtualClock, simulate
from tests.helpers.tasks import beside
from tests.simulation.chronicle import DISRUPTIONS, REFUSALS, Chronicle, State, Streaming, owner_of, parsed

PODS = APIResource("", "v1", "Pod", "pods")
NAMES = "abcd"
PAUSES = (3.0, 10.0, 20.0, 40.0, 150.0, 700.0)
HISTORIES = int(os.environ.get("HISTORIES", "150"))
IN_FULL = 20_000
Steps = list[tuple[str, int, float]]
LONG = 250.0
"""Seconds after which even an informer that had many failures has looked at the server anew."""


@define(eq=False)
class Heard:
    """What one handler was told, and what of it cannot be."""

    deltas: list[Delta] = field(factory=list)
    last: dict[str, Snapshot] = field(factory=dict)
    wrong: list[str] = field(factory=list)

    def __call__(self, delta: Delta) -> None:
        name = delta.last.key.name
        known = self.last.get(name)
        if delta.resync:
            if delta.new is not known:
                self.wrong.append(f"{delta.new} is replayed after {known}")
            return
        if delta.new is None:
            fits = known is not None and delta.old is not None and known.uid == delta.old.uid
            self.last.pop(name, None)
        else:
            fits = delta.old is known
            self.last[name] = delta.new
        self.deltas.append(delta)
        if not fits:
            self.wrong.append(f"{delta} after {known}")

    def states(self, name: str) -> Sequence[State | None]:
        """The states of an object, as it was told them; None where it was told of a deletion."""
        return [_state(delta.new) for delta in self.deltas if delta.last.key.name == name]


def _state(snapshot: Snapshot | None) -> State | None:
    return None if snapshot is None else parsed(snapshot.raw)


@define(eq=False)
class Play:
    """An informer, a server with a past, and those who listen. Its methods are the steps of a history."""

    server: Chronicle
    informer: Informer
    chance: random.Random
    first: Heard = field(factory=Heard)
    late: list[tuple[Heard, Registration]] = field(factory=list)
    left: list[tuple[Heard, int]] = field(factory=list)
    wrong: list[str] = field(factory=list)
    runs: anyio.CancelScope = field(factory=anyio.CancelScope)

    async def run(self) -> None:
        """Run the informer, and run it again when it was stopped by `restart`."""
        while True:
            with anyio.CancelScope() as self.runs:
                await self.informer.run()

    def look(self, _: Delta | None = None) -> None:
        """Note whether the store is anything but what the server had at the store's version."""
        store = self.informer.store
        held = {snapshot.key.name: parsed(snapshot.raw) for snapshot in store}
        if store.version and not self.server.had(store.version, held):
            self.wrong.append(f"the store is at {store.version} and holds {held}")
        for owner in ("owner-0", "owner-1"):
            owned = {snapshot.key.name for snapshot in store.by_index("owner", owner)}
            if owned != {name for name, state in held.items() if owner_of(state) == owner}:
                self.wrong.append(f"the index of {owner} has {owned} and the store {held}")

    def never(self) -> bool:
        """False, after a look: what to wait for with an eye on each change."""
        self.look()
        return False

    async def write(self, number: int) -> None:
        self.server.write(NAMES[number % 4])

    async def delete(self, number: int) -> None:
        self.server.delete(NAMES[number % 4])

    async def change_others(self, number: int) -> None:
        self.server.change_others(number + 1)

    async def wait(self, number: int) -> None:
        await anyio.sleep(PAUSES[number % 6])

    async def bookmark(self, number: int) -> None:
        self.server.bookmark()

    async def repeat(self, number: int) -> None:
        self.server.repeat(number + 1)

    async def forget(self, number: int) -> None:
        self.server.forget()

    async def hold(self, number: int) -> None:
        self.server.hold(PAUSES[number % 5])

    async def disrupt(self, number: int) -> None:
        self.server.disrupt(sorted(DISRUPTIONS)[number % len(DISRUPTIONS)])

    async def refuse(self, number: int) -> None:
        self.server.refuse(sorted(REFUSALS)[number % len(REFUSALS)])

    async def restore(self, number: int) -> None:
        self.server.restore(number + 1)
        # A server that has passed the version again before anybody looks cannot be found out.
        await anyio.sleep(LONG)

    async def relist(self, number: int) -> None:
        self.informer.relist()

    async def restart(self, number: int) -> None:
        self.runs.cancel()

    async def listen(self, number: int) -> None:
        """A handler comes late: synchronous or slow, with a replay or without."""
        heard = Heard()
        resync = 4.0 if number % 3 == 2 else None
        present = {snapshot.key.name: snapshot for snapshot in self.informer.store}
        if number % 2:
            registration = self.informer.add_async_handler(self._slow(heard), resync=resync)
        else:
            registration = self.informer.add_handler(heard, resync=resync)
            if heard.last != present or not all(delta.initial for delta in heard.deltas):
                self.wrong.append(f"a late handler heard {heard.deltas} of {present}")
        self.late.append((heard, registration))

    async def leave(self, number: int) -> None:
        """The handler that came first of those that came late is taken away."""
        if self.late:
            heard, registration = self.late.pop(0)
            await registration.wait_removed()
            self.left.append((heard, len(heard.deltas)))

    def _slow(self, heard: Heard) -> AsyncHandler:
        async def handle(delta: Delta) -> None:
            await anyio.sleep(self.chance.random() * 3)
            heard(delta)

        return handle


CHANGES = ["write", "write", "write", "delete", "wait"]
EVENTS = [
    "change_others",
    "bookmark",
    "repeat",
    "forget",
    "hold",
    "disrupt",
    "disrupt",
    "refuse",
    "restore",
    "relist",
    "restart",
    "restart",
    "listen",
    "leave",
]
STEPS = st.tuples(
    st.sampled_from(CHANGES) | st.sampled_from(EVENTS),
    st.integers(0, 8),
    st.sampled_from([0.0, 0.3, 1.0, 3.0]),
)
"""A method of Play, its number, and how long (s) nothing else happens afterwards."""


@pytest.fixture(scope="module", autouse=True)
def _busy_machine() -> Iterator[None]:
    """Whatever hands on many things pauses after each of them, and for long."""
    print(f"\n{HISTORIES} of {IN_FULL} histories run")

    async def pause(pace: LoopSlice) -> None:
        await anyio.sleep(0.2)
        pace.start()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("informers.loop_slices.SLICE", -1.0)
        patch.setattr("informers.loop_slices.LOOK_EVERY", 1)
        patch.setattr(LoopSlice, "pause", pause)
        yield


@pytest.mark.rule("inv-20", "inv-21", "inv-25", "inv-26", "inv-28", "inv-30", "inv-32", "inv-35", "K1")
@settings(max_examples=HISTORIES)
@given(
    steps=st.lists(STEPS, min_size=20, max_size=60),
    present=st.integers(1, 4),
    streaming=st.sampled_from(["serves", "serves", "refuses", "ignores"]),
    bookmarks=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_after_any_history_the_store_and_every_handler_have_the_correct_state(
    steps: Steps, present: int, streaming: Streaming, bookmarks: bool, seed: int
) -> None:
    server = Chronicle(seed, streaming, bookmarks=bookmarks)
    for name in NAMES[:present]:
        server.write(name)
    simulate(_played, steps, server, seed, seed=seed, limit_seconds=1e6)


async def _played(steps: Steps, server: Chronicle, seed: int) -> None:
    informer = Informer(server, PODS, clock=VirtualClock(seed))
    play = Play(server, informer, random.Random(seed))
    informer.add_handler(play.first)
    informer.add_handler(play.look)
    async with beside(play.run), beside(informer.wait_until, play.never, 1e6):
        for what, number, seconds in steps:
            await getattr(play, what)(number)
            await anyio.sleep(seconds)
        await anyio.sleep(2 * LONG + 100.0 * sum(what == "refuse" for what, *_ in steps))
        quiet = anyio.current_time()
        await anyio.sleep(1500)
        for _ in range(3):
            server.bookmark()
            await anyio.sleep(20)
    _judge(play, server)
    # Watches of five to ten minutes, and at most one that finds its version forgotten, after which a
    # first state is asked for as a stream and, where that does not come, in pages. Nothing else.
    assert sum(at > quiet for at in server.requests) <= 6 + 5


def _judge(play: Play, server: Chronicle) -> None:
    assert play.wrong == []
    assert {snapshot.key.name: parsed(snapshot.raw) for snapshot in play.informer.store} == server.content
    assert play.informer.store.version == server.version or not server.bookmarks
    for heard in [play.first, *(heard for heard, _ in play.late)]:
        assert {name: parsed(snapshot.raw) for name, snapshot in heard.last.items()} == server.content
    for heard in [play.first, *(heard for heard, _ in (*play.late, *play.left))]:
        assert heard.wrong == []
        for name in NAMES:
            told, past = heard.states(name), server.past.get(name, [None])
            assert all(one != other for one, other in pairwise(told)), (name, told)
            assert _is_part_of(told, past), (name, told, past)
    assert all(len(heard.deltas) == at_leaving for heard, at_leaving in play.left)


def _is_part_of(part: Sequence[State | None], whole: Sequence[State | None]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)
