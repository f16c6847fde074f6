"""Two replicas of an operator, a server, and everything between them that can go wrong.

Prints one line; the exit status is 1 if anything was done twice, lost or left behind, or written by a
replica that did not lead. The seed decides what is done to whom, not how processes take turns.
"""

import argparse
import random
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from attrs import define, field

from informers.kubernetes import connect
from reconcile import Client, ObjectMeta
from reconcile.kinds import Namespace
from reconcile.models import definition_of
from tests.chaos.driver import Crew, User
from tests.chaos.fleet_operator import NAMESPACE, Fleet
from tests.chaos.judge import Judge, Tail
from tests.chaos.lying_proxy import LyingProxy, lying
from tests.helpers.tasks import beside
from tests.processes.harness import Machine, machine
from tests.processes.recording_server import CHANGES, LOG, Asked

IN_FULL = 1800.0
REPLICAS = ("one", "two")
STORY = "story.txt"
TO_REST = 120.0
"""Seconds after the last fault within which everything must be in order."""
AT_REST = 3.0
"""Seconds for which it then has to stay so, without a write."""
TOLD = 40
"""Lines of the story that are shown with a violation; the rest is in the folder."""


@define
class Chaos:
    """One run, and what came of it."""

    folder: Path
    seconds: float
    seed: int
    judge: Judge = field(factory=lambda: Judge(REPLICAS), init=False)
    faults: dict[str, int] = field(factory=dict, init=False)
    incidents: dict[str, int] = field(factory=dict, init=False)
    acts: int = field(default=0, init=False)
    lost: int = field(default=0, init=False)
    rested_after: float = field(default=0.0, init=False)

    _requests: Tail = field(init=False)
    _changes: Tail = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._requests, self._changes = Tail(self.folder / LOG), Tail(self.folder / CHANGES)

    def tell(self, line: str) -> None:
        """Write down what happened, and when by the machine's monotonic clock."""
        with (self.folder / STORY).open("a") as file:
            file.write(f"{time.monotonic():.3f} {line}\n")

    async def play(self, on: Machine) -> None:
        """Serve, let everything go wrong for `seconds`, then let it rest and look."""
        _, port = await on.serve(self.folder, REPLICAS, changes=True)
        (self.folder / "outside").mkdir()
        transport = await connect(self.folder / "admin")
        client = Client(transport)
        await client.create(definition_of(Fleet))
        await client.create(Namespace(metadata=ObjectMeta(NAMESPACE)))
        async with AsyncExitStack() as stack:
            proxies = {
                name: await stack.enter_async_context(lying(self.folder, name, port, self._chance(name)))
                for name in REPLICAS
            }
            await self._play(on, client, proxies)
        await transport.aclose()

    async def _play(self, on: Machine, client: Client, proxies: dict[str, LyingProxy]) -> None:
        tell, chance = self.tell, self._chance
        crew = Crew(self.folder, on, proxies, chance("incidents"), tell, self.judge.violations)
        user = User(client, chance("user"), tell)
        for name in REPLICAS:
            crew.start(name)
        async with beside(crew.keep_up), beside(self._read_logs):
            async with anyio.create_task_group() as chaos:
                chaos.start_soon(crew.suffer, self.seconds)
                chaos.start_soon(user.act, self.seconds)
            while any(proxy.late for proxy in proxies.values()):
                await anyio.sleep(0.1)
            for proxy in proxies.values():
                proxy.heal()
            tell("heal")
            await self._come_to_rest()
        self._judge_logs()
        for proxy in proxies.values():
            self.judge.violations += [f"the proxy failed: {error}" for error in proxy.errors]
            for name, count in proxy.faults.items():
                self.faults[name] = self.faults.get(name, 0) + count
        self.incidents, self.acts, self.lost = dict(crew.incidents), sum(user.acts.values()), crew.lost

    async def _come_to_rest(self) -> None:
        """Wait until all is in order and no more is written; note what never is."""
        healed = since = time.monotonic()
        writes = self.judge.writes
        amiss: list[str] = []
        while time.monotonic() < healed + TO_REST:
            await anyio.sleep(0.5)
            amiss = self.judge.amiss(self.folder / "outside")
            if amiss or self.judge.writes != writes:
                writes, since = self.judge.writes, time.monotonic()
            elif time.monotonic() >= since + AT_REST:
                self.rested_after = since - healed
                return
        self.judge.violations += amiss or [f"replicas still write {TO_REST:g} s after the last fault"]

    async def _read_logs(self) -> None:
        while True:
            self._judge_logs()
            await anyio.sleep(0.5)

    def _judge_logs(self) -> None:
        for line in self._changes.lines():
            self.judge.changed(line["at"], line["plural"], line["gone"], line["object"])
        for line in self._requests.lines():
            self.judge.asked(Asked(**line))

    def _chance(self, of: str) -> random.Random:
        return random.Random(f"{self.seed} {of}")

    # --- the report --------------------------------------------------------------------------------

    def report(self) -> str:
        judge = self.judge
        parts = [
            f"{self.seconds:g} s of {IN_FULL:g} in full (seed {self.seed})",
            f"{sum(self.faults.values())} faults ({_counted(self.faults)})",
            f"incidents: {_counted(self.incidents)}",
            f"{self.lost} Leases lost",
            f"{self.acts} acts on {len(judge.ever)} objects",
            f"{judge.requests} requests, at most {judge.busiest_second} in a second of one replica",
            f"{judge.writes} writes, of which {judge.late} delayed on purpose and not judged by who led",
            f"at rest after {self.rested_after:.1f} s",
            f"{len(judge.violations)} violations",
        ]
        return "chaos: " + "; ".join(parts)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=IN_FULL, help=f"how long ({IN_FULL:g})")
    parser.add_argument("--seed", type=int, default=None, help="which run (the default is another each time)")
    parser.add_argument("--folder", type=Path, default=None, help="where logs go (a temporary folder)")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    folder = options.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(exist_ok=True)
    chaos = Chaos(folder, options.seconds, seed)
    with machine(folder) as made:
        anyio.run(chaos.play, made)
    print(chaos.report())
    for violation in chaos.judge.violations:
        print(f"chaos: VIOLATION: {violation}")
    if chaos.judge.violations:
        lines = (folder / STORY).read_text().splitlines()
        print("\n".join(["chaos: the story ended so:", *lines[-TOLD:], f"chaos: all of it is in {folder}"]))
    return int(bool(chaos.judge.violations))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
