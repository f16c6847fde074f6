"""A network of simulated pods for pod autoscalers: pages by address, in virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import anyio
from attrs import define, field, frozen

from controllers.autoscaling.incident import Pages
from reconcile.blocks import Fetch, FetchFailed
from reconcile.kinds import Pod


@define(eq=False)
class Net:
    """Answers at the addresses of pods that have begun; others refuse. `hanging` ones never answer."""

    metrics: Callable[[Pod], str] = lambda pod: "load 0\n"
    pods: dict[str, Pod] = field(factory=dict)
    hanging: set[str] = field(factory=set)
    asked: int = 0

    @property
    def fetch(self) -> Callable[[], Fetch]:
        return lambda: _Fetch(self)

    @asynccontextmanager
    async def pages(self, metrics: Callable[[Pod], str]) -> AsyncIterator[Pages]:
        self.metrics = metrics
        yield self

    async def begin(self, pod: Pod) -> str:
        address = f"10.9.{len(self.pods) // 250}.{len(self.pods) % 250}"
        self.pods[address] = pod
        return address

    async def end(self, uid: str) -> None:
        self.pods = {address: pod for address, pod in self.pods.items() if pod.uid != uid}


@frozen
class _Fetch:
    net: Net

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return

    async def page(self, url: str, most_bytes: int) -> bytes:
        self.net.asked += 1
        address = url.removeprefix("http://").partition(":")[0]
        if address in self.net.hanging:
            await anyio.sleep(3600)
        if address not in self.net.pods:
            raise FetchFailed("ConnectionRefused", "it does not take connections")
        return self.net.metrics(self.net.pods[address]).encode()


@define(eq=False)
class Metrics:
    """Pages that say `load` at this moment; another text in `page` goes before it."""

    load: float = 0.0
    page: str = ""

    def __call__(self, pod: Pod) -> str:
        return self.page or f"# TYPE load gauge\nload {self.load}\n"
