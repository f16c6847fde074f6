"""A ring of replicas in processes, and chance, which kills, freezes, cuts off and stops them."""

import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import anyio
from attrs import define, field, frozen

from tests.processes.harness import Machine, send, through, until
from tests.processes.sharded_replica import TERMS, run
from tests.processes.tcp_proxy import TcpProxy

AT_WORK = 2
"""Chance spares so many replicas at any time."""
PAUSE = 0.3, 2.0
"""Seconds between two faults."""
LASTING = TERMS.duration + 1.0, TERMS.duration + 4.0
"""Seconds of a fault that is longer than the Lease."""
BRIEF = 0.2, TERMS.renew_deadline - 2 * TERMS.retry
"""Seconds of a fault that the Lease outlives."""


@define
class Place:
    """Where one replica runs after the other, as in a Pod: one that ends is started anew, while `staffed`."""

    number: int
    proxy: TcpProxy
    process: BaseProcess | None = None
    starts: int = 0
    staffed: bool = True
    troubled: bool = False

    @property
    def identity(self) -> str:
        """Of the replica that was started last."""
        return identity_of(self.number, self.starts)

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.exitcode is None:
            send(self.process, number)


def identity_of(place: int, start: int) -> str:
    return f"r{place}-{start}"


@frozen
class Fault:
    """What chance did to a replica; times are the machine's monotonic clock."""

    kind: str
    identity: str
    began: float
    ended: float


@define
class Ring:
    """All replicas, and what became of them. Each has an identity, a user and a kubeconfig of its own."""

    on: Machine
    folder: Path
    ledger: int
    places: Sequence[Place]
    faults: list[Fault] = field(factory=list, init=False)
    exits: list[tuple[str, int]] = field(factory=list, init=False)

    async def tend(self) -> None:
        """Start what is to run and does not, until cancelled."""
        while True:
            for place in self.places:
                if place.process is not None and place.process.exitcode is not None:
                    self.exits.append((place.identity, place.process.exitcode))
                    place.process = None
                if place.process is None and place.staffed:
                    place.starts += 1
                    kubeconfig = through(self.folder, place.identity, place.proxy.port)
                    place.process = self.on.start(run, self.folder, place.identity, kubeconfig, self.ledger)
            await anyio.sleep(0.05)

    async def stop(self) -> None:
        """Stop all, and wait until they have ended."""
        for place in self.places:
            place.staffed = False
            place.signal(signal.SIGTERM)
        await until(lambda: not any(place.process for place in self.places), 30)

    async def trouble(self, chance: random.Random, seconds: float) -> None:
        """Have faults happen for that long; returns when the last one is over."""
        ends = time.monotonic() + seconds
        kinds: list[str] = []
        async with anyio.create_task_group() as tasks:
            while time.monotonic() < ends:
                await anyio.sleep(chance.uniform(*PAUSE))
                calm = [one for one in self.places if one.process is not None and not one.troubled]
                if len(calm) > AT_WORK:
                    kinds = kinds or chance.sample(list(FAULTS), len(FAULTS))
                    fault, span = FAULTS[kind := kinds.pop()]
                    place, lasts = chance.choice(calm), chance.uniform(*span)
                    place.troubled = True
                    tasks.start_soon(self._suffer, kind, fault, place, lasts)

    async def _suffer(
        self, kind: str, fault: Callable[[Place, float], Awaitable[None]], place: Place, seconds: float
    ) -> None:
        identity, began = place.identity, time.monotonic()
        await fault(place, seconds)
        self.faults.append(Fault(kind, identity, began, time.monotonic()))
        place.troubled = False


async def _kill(place: Place, seconds: float) -> None:
    place.signal(signal.SIGKILL)
    await anyio.sleep(seconds)


async def _freeze(place: Place, seconds: float) -> None:
    place.signal(signal.SIGSTOP)
    await anyio.sleep(seconds)
    place.signal(signal.SIGCONT)


async def _cut_off(place: Place, seconds: float) -> None:
    place.proxy.cut = True
    await anyio.sleep(seconds)
    place.proxy.cut = False


async def _cut_off_briefly(place: Place, seconds: float) -> None:
    place.proxy.stand_still()
    await anyio.sleep(seconds)
    place.proxy.go_on()


async def _stop(place: Place, seconds: float) -> None:
    place.staffed = False
    place.signal(signal.SIGTERM)
    await until(lambda: place.process is None, 30)
    await anyio.sleep(seconds)
    place.staffed = True


FAULTS: dict[str, tuple[Callable[[Place, float], Awaitable[None]], tuple[float, float]]] = {
    "killed": (_kill, BRIEF),
    "stopped": (_stop, BRIEF),
    "frozen": (_freeze, LASTING),
    "frozen briefly": (_freeze, BRIEF),
    "cut off": (_cut_off, LASTING),
    "cut off briefly": (_cut_off_briefly, BRIEF),
}
