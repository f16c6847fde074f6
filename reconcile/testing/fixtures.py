"""What the fixtures of the pytest plugin hand out, for a cluster in virtual time and a server alike."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import frozen

from reconcile.controller.blocking import InStep
from reconcile.controller.declaration import Controller
from reconcile.manager.manager import Manager
from reconcile.models import Object
from reconcile.simulation import Delays, SimulatedNodes, SimulatedWorkloads
from reconcile.testing.failing import Failure, failing
from reconcile.testing.faults import Crash, Fault, Verb
from reconcile.testing.once import describe
from reconcile.testing.places import Place
from reconcile.testing.pod_pages import PodPages
from reconcile.testing.requests import RecordedRequest


@frozen
class Faults:
    """What goes wrong between the managers of a test and their server, and what came of it.

    Nothing does until `add` or `fail` say so, and only requests made afterwards count. The test's own
    client is not concerned.
    """

    _place: Place

    def add(self, *faults: Fault) -> None:
        """Let these go wrong from now on."""
        self._place.transport.add(*faults)

    def fail(self, verb: Verb, kind: type[Object] | str, error: Failure, times: int | None = 1) -> None:
        """As `FakeClient.fail`: the next `times` requests (None: all) of `verb` for `kind` fail."""
        self.add(failing(verb, kind, error, times))

    def crash(self) -> None:
        """The process of the manager dies now: nothing more leaves it. The next `manager(...)` is new."""
        self._place.transport.die()

    @property
    def crashed(self) -> bool:
        """Whether the manager's process is dead, by `crash` or by a fault."""
        return self._place.transport.crashed

    @property
    def applied(self) -> list[str]:
        """One line for each fault that happened."""
        return self._place.transport.applied

    @property
    def requests(self) -> list[RecordedRequest]:
        """Every request of managers, in order."""
        return self._place.transport.requests

    @property
    def writes(self) -> list[str]:
        """What managers asked to be changed, in order, as `apply deployments default/web`."""
        return [describe(request) for request in self._place.transport.writes]


@frozen
class ManagerOf:
    """Runs managers on the cluster of a test: `async with manager(sites) as running:`."""

    _place: Place

    @asynccontextmanager
    async def __call__(self, *controllers: Controller[Any], **options: Any) -> AsyncIterator[Manager]:
        """A manager with these controllers, ready when the context begins and stopped where it is left.

        Their kinds are served first. `options` are those of `Manager`; of its place only they are given.
        A crash, planned or by `faults.crash()`, ends the manager and not the test.
        """
        place = self._place
        await place.define(dict.fromkeys(kind for one in controllers for kind in one.kinds))
        place.transport.restart()
        given: dict[str, Any] = {"environ": {}, "clock": place.clock, "undeclared": "refuse", **options}
        given.setdefault("blocking", InStep() if place.virtual else None)
        async with place.opened():
            try:
                async with Manager(*controllers, transport=place.transport, **given) as running:
                    yield running
            except* Crash:
                pass


@frozen
class NodesOf:
    """Runs simulated nodes on the cluster of a test: `async with nodes(3):`."""

    _place: Place

    @asynccontextmanager
    async def __call__(
        self,
        count: int = 3,
        delays: Delays | None = None,
        *,
        pages: PodPages | None = None,
        workloads: bool = False,
    ) -> AsyncIterator[SimulatedNodes]:
        """`count` Nodes that take pods, as long as the context lasts; no fault concerns them.

        With `workloads`, Deployments, StatefulSets and Jobs make pods. With `pages`, pods that run answer on
        loopback addresses; ValueError in virtual time, in which there are none.
        """
        place = self._place
        if pages is not None and place.virtual:
            raise ValueError("pages are served on sockets, in real time: use api_server in the test")
        nodes = SimulatedNodes(count, delays or Delays(), pages)
        async with place.connect() as client:
            await nodes.register(client)
            running = Manager(
                nodes.controller,
                *(SimulatedWorkloads().controllers if workloads else ()),
                transport=client.transport,
                clock=place.clock,
                environ={},
                stop_seconds=1,
            )
            async with running:
                yield nodes
            if pages is not None:
                with anyio.CancelScope(shield=True):
                    await pages.close()
