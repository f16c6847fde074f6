"""What the fixtures of the pytest plugin return, for a cluster in virtual time and for a real server."""

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
from reconcile.testing.cluster_places import ClusterPlace
from reconcile.testing.failure_faults import RequestFailure, failure_fault
from reconcile.testing.faults import Crash, Fault, Verb
from reconcile.testing.pod_pages import PodPages
from reconcile.testing.recorded_requests import RecordedRequest


@frozen
class FaultControl:
    """The faults between the managers of a test and their server: the fixture `faults`.

    Only requests made after `add` or `fail` count. The test's own client is not affected.
    """

    _place: ClusterPlace

    def add(self, *faults: Fault) -> None:
        """Inject these faults from now on."""
        self._place.transport.add(*faults)

    def fail(
        self, verb: Verb, kind: type[Object] | str, error: RequestFailure, times: int | None = 1
    ) -> None:
        """As `FakeClient.fail`: make the next `times` requests (None: all) of `verb` for `kind` fail."""
        self.add(failure_fault(verb, kind, error, times))

    def crash(self) -> None:
        """End the manager's process now: it sends nothing more. The next `manager(...)` is a new process."""
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
        """Every request of the managers, in order."""
        return self._place.transport.requests

    @property
    def writes(self) -> list[str]:
        """The writes of the managers, in order, as `apply deployments default/web`."""
        return [request.summary for request in self._place.transport.writes]


@frozen
class ManagerRunner:
    """Runs managers on the cluster of a test: `async with manager(sites) as running:`."""

    _place: ClusterPlace

    @asynccontextmanager
    async def __call__(self, *controllers: Controller[Any], **options: Any) -> AsyncIterator[Manager]:
        """Serve the controllers' kinds and run a manager: ready in the context, stopped when it is left.

        `options` are those of `Manager`; the environment is not read. A crash ends the manager, not the test.
        """
        place = self._place
        await place.prepare(controllers)
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
class NodesRunner:
    """Runs simulated nodes on the cluster of a test: `async with nodes(3):`."""

    _place: ClusterPlace

    @asynccontextmanager
    async def __call__(
        self,
        count: int = 3,
        delays: Delays | None = None,
        *,
        pages: PodPages | None = None,
        workloads: bool = False,
    ) -> AsyncIterator[SimulatedNodes]:
        """Run `count` nodes, which take pods and meet no faults, until the context is left.

        With `workloads`, Deployments, StatefulSets and Jobs make pods. With `pages`, running pods answer on
        loopback addresses; virtual time has no sockets for that (ValueError).
        """
        place = self._place
        if pages is not None and place.virtual:
            raise ValueError("pages= needs real time, for its sockets: use the fixture api_server")
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
