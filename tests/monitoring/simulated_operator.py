"""An operator in virtual time whose metrics pages are scraped, as Prometheus would."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from attrs import define, field
from prometheus_client import CollectorRegistry

from informers import StreamingResponse, Transport
from informers.transport import HttpRequest, PassingTransport
from reconcile import Controller, Manager, ObjectMeta, kind_of
from reconcile.embedded import InProcessTransport
from reconcile.errors import LeadershipLost
from reconcile.monitoring.rules import rule_groups
from reconcile.testing import Fault, FaultPlan, FaultyTransport, LateTransport, When, simulate
from reconcile.testing.faults import What
from tests.controller.outage import Line
from tests.helpers.managers import Toy, ToySpec, World

STEP: Final = 30.0
"""Seconds between two scrapes."""
HOUR: Final = 3600.0
TOYS: Final = kind_of(Toy).resource
NAMESPACE: Final = "toys-system"
JOB: Final = "toys"

_SAMPLE = re.compile(rb"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_BOUND = re.compile(rb'le="([^"]*)"')


def needed() -> tuple[frozenset[bytes], dict[bytes, frozenset[bytes]]]:
    """The names of the metrics in the rules, and for some histograms the only bounds that are asked for."""
    text = " ".join(rule["expr"] for group in rule_groups() for rule in group["rules"])
    names = {name.encode() for name in re.findall(r"(?<![:\w])[a-z]+_\w+(?=[{\[),\s])", text)}
    bounds: dict[bytes, set[bytes]] = {}
    for name, bound in re.findall(r'(\w+_bucket)\{le="([^"]*)"\}', text):
        bounds.setdefault(name.encode(), set()).add(bound.encode())
    return frozenset(names), {name: frozenset(found) for name, found in bounds.items()}


NAMES, BOUNDS = needed()


def samples_of(page: bytes) -> Iterator[tuple[str, str, float]]:
    """Name, labels and value of the samples on a metrics page that the rules need."""
    for name, labels, value in _SAMPLE.findall(page):
        if name not in NAMES:
            continue
        bounds, bound = BOUNDS.get(name), _BOUND.search(labels)
        if bounds is None or (bound is not None and bound[1] in bounds):
            yield name.decode(), labels.decode(), float(value)


@define
class Recording:
    """The scraped samples by series, one value a step; None: the target was not scraped."""

    series: dict[str, list[float | None]] = field(factory=dict)
    steps: int = 0

    def add(self, pages: dict[str, bytes]) -> None:
        """Add a step: the pages by the name of their replica."""
        for instance, page in pages.items():
            target = f'namespace="{NAMESPACE}",job="{JOB}",instance="{instance}"'
            for name, labels, value in samples_of(page):
                series = f"{name}{{{','.join(filter(None, [labels, target]))}}}"
                values = self.series.setdefault(series, [])
                values.extend([None] * (self.steps - len(values)))
                values.append(value)
        self.steps += 1


@define
class Replica:
    """A manager in a process of its own, in effect: it may die without a word."""

    manager: Manager
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)


class Operator(World):
    """A server, users, and replicas of an operator behind one line, which faults can make worse."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._faulty = FaultyTransport(self._way())
        self.line = Line(self._faulty)
        self.recording = Recording()
        self.replicas: dict[str, Replica] = {}
        self._tasks: TaskGroup | None = None

    def _way(self) -> LateTransport:
        return LateTransport(InProcessTransport(self.server), self.seed)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Serve, and scrape what runs."""
        async with anyio.create_task_group() as group:
            self._tasks = group
            group.start_soon(self.server.run)
            group.start_soon(self._scrape)
            yield
            for instance in [*self.replicas]:
                await self.kill(instance)
            group.cancel_scope.cancel()

    async def start(self, *controllers: Controller[Any], instance: str = "pod-1", **options: Any) -> Manager:
        """Start a replica; returns when it is at work, or would be if it led."""
        manager = self._launch(controllers, instance, options)
        await anyio.sleep(1)
        return manager

    def _launch(
        self, controllers: Sequence[Controller[Any]], instance: str, options: Mapping[str, Any]
    ) -> Manager:
        options = {"stop_seconds": 5, "metrics": CollectorRegistry(), "transport": self.line, **options}
        manager = Manager(*controllers, clock=self.clock, **options)
        replica = self.replicas[instance] = Replica(manager)
        assert self._tasks is not None
        self._tasks.start_soon(
            self._run, instance, replica, partial(self._launch, controllers, instance, options)
        )
        return manager

    async def _run(self, instance: str, replica: Replica, again: Callable[[], Manager]) -> None:
        with replica.scope:
            try:
                await replica.manager.run()
            except LeadershipLost:
                again()  # as a kubelet does
        if self.replicas.get(instance) is replica:
            del self.replicas[instance]

    async def kill(self, instance: str = "pod-1") -> None:
        self.replicas.pop(instance).scope.cancel()
        await anyio.sleep(0.1)

    async def stop(self, instance: str = "pod-1") -> None:
        """Stop a replica as a rolling update does."""
        self.replicas[instance].manager.stop()
        while instance in self.replicas:
            await anyio.sleep(0.1)

    async def _scrape(self) -> None:
        for step in range(1_000_000):
            await anyio.sleep(step * STEP - anyio.current_time())
            metrics = {name: replica.manager._metrics for name, replica in self.replicas.items()}
            pages = {name: found.text()[0] for name, found in metrics.items() if found is not None}
            self.recording.add(pages)

    # --- what goes wrong, and what goes on ----------------------------------------------------------

    def break_down(self, *faults: tuple[When, What]) -> None:
        """Have these faults happen to requests of all replicas from now on; open streams are reset."""
        plan = FaultPlan([Fault(when, what) for when, what in faults], seed=self.seed)
        self._faulty = FaultyTransport(self._way(), plan)
        self.line.lead_to(self._faulty)

    def worsen(self, when: When, what: What) -> None:
        """Have one more fault happen to requests from now on; open streams stay."""
        self._faulty.add(Fault(when, what))

    def heal(self) -> None:
        """No more faults of requests; open streams are reset."""
        self.break_down()

    def users(self, names: Sequence[str], every: float = 10.0) -> None:
        """Have users change these objects from now on, one after the other."""
        assert self._tasks is not None
        self._tasks.start_soon(self._change, names, every)

    async def _change(self, names: Sequence[str], every: float) -> None:
        for number in range(1_000_000):
            await anyio.sleep(every)
            await self.resize(names[number % len(names)], number % 7 + 2)

    async def resize(self, name: str, size: int) -> None:
        toy = await self.client.find(Toy, name, "default")
        if toy is not None:
            await self.client.raw.patch(TOYS, toy.key, {"spec": {"size": size}}, guard={})

    async def make_all(self, names: Sequence[str]) -> None:
        for name in names:
            await self.client.create(Toy(metadata=ObjectMeta(name, "default"), spec=ToySpec()))


def record(play: Any, seed: int = 0, hours: float = 12) -> Recording:
    """Play what happens to an operator; returns what was scraped meanwhile."""
    operator = Operator(seed)

    async def run() -> None:
        await operator.define()
        async with operator.at_work():
            await play(operator)

    simulate(run, seed=seed, limit_seconds=hours * HOUR)
    return operator.recording


class _Garbled(PassingTransport):
    """Lets one object in each stream arrive with a number for a name."""

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        async with self._inner.stream(request) as found:
            chunks = (chunk.replace(b'"name":"a"', b'"name":7') async for chunk in found.chunks)
            yield StreamingResponse(found.status, found.headers, chunks)


def garbled(inner: Transport) -> Transport:
    """A way on which objects of the name `a` cannot be read."""
    return _Garbled(inner)
