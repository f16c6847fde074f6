"""Who uses the operator, and what befalls its processes; both at random, from a seed."""

import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import anyio
from attrs import define, field

from informers import ApiError
from reconcile import Client, ObjectMeta
from reconcile.kinds import ConfigMap
from tests.chaos import fleet_operator
from tests.chaos.fleet_operator import NAMESPACE, TEXT, Fleet, FleetSpec
from tests.chaos.lying_proxy import LyingProxy
from tests.processes import replica
from tests.processes.harness import Machine, send

FLEETS = 12
"""Names that come and go; a name may come back while what was called so before is still being cleared up."""
MOST_SLOTS = 5


@define
class User:
    """Makes, edits and deletes Fleets and what belongs to them, past the proxy."""

    client: Client
    chance: random.Random
    tell: Callable[[str], None]
    acts: Counter[str] = field(factory=Counter, init=False)

    async def act(self, seconds: float) -> None:
        """Act for so long, three or four times a second."""
        with anyio.move_on_after(seconds):
            while True:
                await anyio.sleep(self.chance.uniform(0.05, 0.5))
                with suppress(ApiError):  # a child may go meanwhile, a name may still be taken
                    await self._act_once()

    async def _act_once(self) -> None:
        fleets = [one for one in await self.client.list(Fleet, NAMESPACE) if not one.terminating]
        if not fleets or (len(fleets) < FLEETS and self.chance.random() < 0.25):
            await self._make()
            return
        chosen = self.chance.choice(fleets)
        act = self.chance.choices((self._edit, self._delete, self._rob, self._meddle), (6, 1, 2, 1))[0]
        await act(chosen)

    def _note(self, act: str, name: str) -> None:
        self.acts[act] += 1
        self.tell(f"{act} {name}")

    async def _make(self) -> None:
        name = f"fleet-{self.chance.randrange(FLEETS)}"
        spec = FleetSpec(self.chance.randint(1, MOST_SLOTS), self.chance.randint(0, 3), 0)
        await self.client.create(Fleet(metadata=ObjectMeta(name, NAMESPACE), spec=spec))
        self._note("make", name)

    async def _edit(self, chosen: Fleet) -> None:
        spec = FleetSpec(
            self.chance.randint(0, MOST_SLOTS),
            chosen.spec.goal + self.chance.randint(0, 3),
            chosen.spec.revision + self.chance.randint(0, 1),
        )
        await self.client.modify(Fleet, chosen.name, NAMESPACE, lambda found: found.replace(spec=spec))
        self._note("edit", chosen.name)

    async def _delete(self, chosen: Fleet) -> None:
        await self.client.delete(chosen)
        self._note("delete", chosen.name)

    async def _rob(self, chosen: Fleet) -> None:
        """Delete a child."""
        children = [
            one
            for one in await self.client.list(ConfigMap, NAMESPACE)
            if one.name.startswith(f"{chosen.name}-")
        ]
        if children:
            victim = self.chance.choice(children)
            await self.client.delete(victim)
            self._note("delete child", victim.name)

    async def _meddle(self, chosen: Fleet) -> None:
        """Change by hand what the operator applies, and add to it."""
        found = await self.client.find(ConfigMap, f"{chosen.name}-{TEXT}", NAMESPACE)
        if found is not None:
            await self.client.raw.merge(found, {"data": {"revision": "by hand", "by-hand": "yes"}}, guard={})
            self._note("meddle", found.name)


@define
class Crew:
    """The replicas: killed, frozen and cut off, and always started again."""

    folder: Path
    machine: Machine
    proxies: dict[str, LyingProxy]
    chance: random.Random
    tell: Callable[[str], None]
    violations: list[str]
    members: dict[str, BaseProcess] = field(factory=dict, init=False)
    incidents: Counter[str] = field(factory=Counter, init=False)
    lost: int = field(default=0, init=False)
    """How often a replica ended because it lost the Lease."""
    _expected: dict[str, set[int]] = field(factory=dict, init=False)
    _frozen: set[str] = field(factory=set, init=False)

    def start(self, name: str) -> None:
        self._expected[name] = {replica.LOST}
        self.members[name] = self.machine.start(fleet_operator.run, self.folder, name)

    async def keep_up(self) -> None:
        """Start again each replica that ended, for ever; note those that ended without a reason."""
        while True:
            await anyio.sleep(0.1)
            for name, process in list(self.members.items()):
                if process.exitcode is None:
                    continue
                status = process.exitcode
                self.tell(f"{name} ended with status {status}")
                self.lost += status == replica.LOST
                if status not in self._expected[name]:
                    self.violations.append(f"{name} ended with status {status}; see {name}.log")
                await anyio.sleep(self.chance.uniform(0, 1))
                self.start(name)

    async def suffer(self, seconds: float) -> None:
        """Let things happen to the replicas for so long."""
        with anyio.move_on_after(seconds):
            while True:
                await anyio.sleep(self.chance.uniform(3, 9))
                name = self.chance.choice(list(self.proxies))
                incident = self.chance.choices(
                    (self._kill, self._freeze, self._cut_off, self._stop), (45, 35, 15, 5)
                )[0]
                await incident(name)
        for name in list(self._frozen):
            self._thaw(name)

    async def _kill(self, name: str) -> None:
        self._note("kill", name)
        self._expected[name].add(-signal.SIGKILL)
        send(self.members[name], signal.SIGKILL)

    async def _stop(self, name: str) -> None:
        self._note("stop", name)
        self._expected[name].add(0)
        send(self.members[name], signal.SIGTERM)

    async def _freeze(self, name: str) -> None:
        self._note("freeze", name)
        send(self.members[name], signal.SIGSTOP)
        self._frozen.add(name)
        await anyio.sleep(self.chance.uniform(0.5, 12))
        self._thaw(name)

    def _thaw(self, name: str) -> None:
        self._frozen.discard(name)
        self.tell(f"thaw {name}")
        send(self.members[name], signal.SIGCONT)

    async def _cut_off(self, name: str) -> None:
        self._note("cut off", name)
        proxy = self.proxies[name]
        proxy.break_all()
        try:
            await anyio.sleep(self.chance.uniform(0.5, 9))
        finally:
            proxy.cut = False

    def _note(self, incident: str, name: str) -> None:
        self.incidents[incident] += 1
        self.tell(f"{incident} {name}")
