"""Servers and replicas in processes of their own, and what the servers wrote down of them."""

import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import anyio
from attrs import define, field

from informers.kubernetes import connect
from reconcile import Client, ObjectMeta
from reconcile.kinds import ConfigMap, Namespace
from tests.processes import ledger, recording_server, replica, sharded_replica
from tests.processes.recording_server import Asked, asked_of

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([module.__name__ for module in (ledger, recording_server, sharded_replica)])


async def until(reached: Callable[[], Any], seconds: float = 20) -> None:
    """Wait for something to be true. Raises TimeoutError."""
    with anyio.fail_after(seconds):
        while not reached():
            await anyio.sleep(0.05)


def send(process: BaseProcess, number: signal.Signals) -> None:
    assert process.pid is not None
    os.kill(process.pid, number)


@define
class Machine:
    """Where processes run; none of them outlives it."""

    folder: Path
    _started: list[BaseProcess] = field(factory=list, init=False)

    def start(self, target: Callable[..., None], *arguments: Any) -> BaseProcess:
        process = _PROCESSES.Process(target=target, args=arguments)
        process.start()
        self._started.append(process)
        return process

    async def serve(
        self, folder: Path, users: Sequence[str], *, tls: bool = True, port: int = 0, changes: bool = False
    ) -> tuple[BaseProcess, int]:
        """A server that keeps its kubeconfigs and its log in a folder, and its port.

        With `changes` it also writes down each state of each object.
        """
        await anyio.Path(folder).mkdir(exist_ok=True)
        return await self._listening(recording_server.run, folder, list(users), port, tls, changes)

    async def keep_ledger(self, folder: Path) -> int:
        """A ledger that keeps its log in a folder; its port."""
        _, port = await self._listening(ledger.run, folder)
        return port

    async def _listening(self, target: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, int]:
        """A process whose last argument is to be told the port on which it listens."""
        told, ready = _PROCESSES.Pipe(duplex=False)
        process = self.start(target, *arguments, ready)
        ready.close()
        with told:
            await until(lambda: told.poll() or process.exitcode is not None, 30)
            found: int = told.recv()
        return process, found

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.join()
            process.close()


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    made = Machine(folder)
    try:
        yield made
    finally:
        made.end()


async def prepare(folder: Path, namespace: str, *names: str, **data: str) -> None:
    """Make a namespace, and ConfigMaps of these data in it."""
    transport = await connect(folder / "admin")
    client = Client(transport)
    await client.create(Namespace(metadata=ObjectMeta(namespace)))
    for name in names:
        await client.create(ConfigMap(metadata=ObjectMeta(name, namespace), data=data))
    await transport.aclose()


def through(folder: Path, user: str, port: int) -> str:
    """A kubeconfig of that user that leads to another port; gives its name."""
    text = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", (folder / user).read_text())
    name = f"{user}-through-{port}"
    (folder / name).write_text(text)
    return name


@define
class Group:
    """Replicas that run for one Lease, and what became of its leader."""

    name: str
    folder: Path
    numbers: Sequence[str] = ("one", "two", "three")
    members: dict[str, BaseProcess] = field(factory=dict, init=False)

    @property
    def users(self) -> Sequence[str]:
        return [f"{self.name}-{number}" for number in self.numbers]

    def start(self, on: Machine, kubeconfigs: dict[str, str] | None = None) -> None:
        for user in self.users:
            kubeconfig = (kubeconfigs or {}).get(user, user)
            self.members[user] = on.start(replica.run, self.folder, user, kubeconfig, self.name)

    @property
    def asked(self) -> Sequence[Asked]:
        return [asked for asked in asked_of(self.folder) if asked.user.startswith(f"{self.name}-")]

    def holders(self) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = []
        for asked in self.asked:
            if asked.committed and asked.holder and (not found or found[-1][0] != asked.holder):
                found.append((asked.holder, asked.at))
        return found

    def work_of(self, user: str) -> list[float]:
        """When that replica changed something that is no Lease."""
        return [a.at for a in self.asked if a.user == user and a.committed and not a.election]

    async def until_warm(self) -> str:
        """Until one leads and works, and the others have seen its Lease; who leads."""

        def warm() -> bool:
            if not self.holders():
                return False
            (leader, since), *_ = self.holders()
            looked = {asked.user for asked in self.asked if asked.election and asked.at > since}
            return bool(self.work_of(leader)) and looked >= set(self.users)

        await until(warm, 30)
        return self.holders()[0][0]

    async def until_another_leads(self, seconds: float) -> tuple[str, float]:
        """Who led next and worked, and when it acquired the Lease."""
        before = len(self.holders())
        await until(lambda: len(self.holders()) > before, seconds)
        heir, since = self.holders()[-1]
        await until(lambda: self.work_of(heir))
        return heir, since

    async def until_gone(self, user: str, seconds: float = 20) -> int | None:
        """The exit status of a replica that ends."""
        process = self.members[user]
        await until(lambda: process.exitcode is not None, seconds)
        return process.exitcode
