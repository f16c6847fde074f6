"""What invariants and the steps of a scenario see of a simulated run, and how they act on it."""

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import anyio
import msgspec

from informers import StatusError
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.controller.run_history import ActiveRun
from reconcile.embedded import ApiServer, InProcessTransport, ServedResource
from reconcile.embedded.admission.chain import finished
from reconcile.embedded.log import Stored
from reconcile.embedded.stored_forms import Unconverted, body_in, shown
from reconcile.manager.manager import Manager
from reconcile.models import Object, decode, kind_of
from reconcile.sharding.options import Sharding
from reconcile.testing.cluster_actor import ClusterActor
from reconcile.testing.fake_services.service import FakeService, services_of
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.recorded_requests import RecordedRequest
from reconcile.testing.rest_monitor import RestMonitor
from reconcile.testing.run_records import (
    Death,
    KeyRun,
    Livelock,
    Standstill,
    TimedAct,
    TimedChange,
    Violation,
)
from reconcile.testing.runs_under_way import RunUnderWay
from reconcile.testing.scenario_acts import (
    CutOff,
    DelayGarbage,
    Freeze,
    JumpClock,
    Kill,
    ProcessAct,
    ScenarioAct,
    Stop,
    Wait,
)
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import loop_time

O = TypeVar("O", bound=Object)  # noqa: E741


class ProcessView(Protocol):
    """The process of one manager, as invariants see it.

    `controllers` are those of its present life, `under_way` its runs that have not ended, with their causes.
    """

    number: int
    transport: FaultyTransport
    controllers: Sequence[Controller[Any]]
    deaths: list[Death]
    lives: int
    standstills: list[Standstill]
    manager: Manager | None
    under_way: dict[ActiveRun, RunUnderWay]

    @property
    def alive(self) -> bool:
        """Whether its manager runs now."""
        ...

    def kill(self, why: str) -> None:
        """End the process now."""
        ...

    def stop(self, rests_for: float) -> None:
        """Have the manager end, and start again so many seconds after that."""
        ...

    def deploy(self, controllers: Callable[[Any], Sequence[Controller[Any]]] | None) -> None:
        """Have it end as in a rollout, and start again with these controllers; None: stay down."""
        ...

    def freeze(self, seconds: float) -> None:
        """Have the process stand still for so long."""
        ...


class World:
    """The argument of an invariant, and of a step that is a function.

    Since the run began: `changes` of the server, `runs` of controllers, `acts` of users, and `violations`
    found. `outside` is what the scenario has outside the cluster, `services` the FakeServices in it.
    """

    def __init__(
        self,
        base: ApiServer,
        seed: int,
        outside: Any,
        *,
        ignored: Collection[str],
        most_requests: int,
        most_failures: int,
        elects_leader: bool,
        sharding: Sharding | None = None,
    ) -> None:
        self.seed = seed
        self.clock = VirtualClock(seed)
        self.server = base.copy(self.clock)
        self.actor = ClusterActor(self.server)
        self.outside = outside
        self.services: Sequence[FakeService] = services_of(outside)
        self.most_requests = most_requests
        self.most_failures = most_failures
        self.elects_leader = elects_leader
        self.sharding = sharding
        self.processes: Sequence[ProcessView] = ()
        self.runs: list[KeyRun] = []
        self.changes: list[TimedChange] = []
        self.acts: list[TimedAct] = []
        self.violations: list[Violation] = []
        self.deliveries: Sequence[TimedAct] = ()
        """The changes that caches saw and the answers that were lost, under a schedule."""
        self.garbage_seconds = 0.0
        """How late the server's own controllers act."""
        self.rest = RestMonitor()
        self.openings: list[TimedAct] = []
        """When the obligations began that were not met."""
        self.livelock: Livelock | None = None
        """The loop in which the run ended, if it did not come to rest."""
        self._ignored = ignored
        self._counted: dict[int, int] = {}

    @functools.cached_property
    def user(self) -> Client:
        """An administrator's client: its reads are live, and no fault concerns it."""
        return Client(InProcessTransport(self.server), field_manager="user", clock=self.clock)

    # --- reading ----------------------------------------------------------------------------------

    def objects(self, kind: type[O], namespace: str = "") -> list[O]:
        """The objects of a kind on the server now, ordered by namespace and name."""
        served = self._served(kind)
        if served is None:
            return []
        stored = self.server.log.snapshot(served.storage_key)
        return [decode(kind, _body(one, served)) for one in stored if namespace in ("", one.key.namespace)]

    def has_any(self, kind: type[Object]) -> bool:
        """Whether the server has an object of a kind now."""
        served = self._served(kind)
        return served is not None and self.server.log.count(served.storage_key) > 0

    def find(self, kind: type[O], name: str, namespace: str = "default") -> O | None:
        """One object on the server now."""
        objects = self.objects(kind, namespace if kind_of(kind).resource.namespaced else "")
        return next((obj for obj in objects if obj.name == name), None)

    def body_of(self, kind: type[Object], stored: Stored) -> dict[str, Any] | None:
        """A stored state of an object in the version of its class, decoded; None if that is not served."""
        served = self._served(kind)
        if served is None:
            return None
        decoded: dict[str, Any] = msgspec.json.decode(_body(stored, served))
        return decoded

    def _served(self, kind: type[Object]) -> ServedResource | None:
        resource = kind_of(kind).resource
        return self.server.resources.get(resource.group, resource.version, resource.plural)

    @property
    def requests(self) -> list[RecordedRequest]:
        """The managers' requests, ordered by time."""
        requests = [request for process in self.processes for request in process.transport.requests]
        return sorted(requests, key=lambda request: request.at)

    def requests_since_rest(self, process: ProcessView) -> Iterator[RecordedRequest]:
        """A manager's requests since the world was last at rest, except for Leases and Events."""
        for request in process.transport.requests[self._counted.get(process.number, 0) :]:
            if request.counted:
                yield request

    def requests_since(self, time: float) -> Iterator[RecordedRequest]:
        """The managers' requests from that time on (s, of the loop), except for Leases and Events."""
        for process in self.processes:
            for request in reversed(process.transport.requests):
                if request.at < time:
                    break
                if request.counted:
                    yield request

    def now(self) -> float:
        """Seconds since the run began."""
        return loop_time()

    # --- acting -----------------------------------------------------------------------------------

    async def act(self, act: ScenarioAct) -> None:
        """Carry out an act now; a `Wait` takes its time."""
        self.rest.stir()
        match act:
            case Wait(seconds=seconds):
                await anyio.sleep(seconds)
                return
            case JumpClock(seconds=seconds):
                self.clock.advance(seconds)
            case DelayGarbage(seconds=seconds):
                self.garbage_seconds = seconds
            case Kill() | Freeze() | CutOff() | Stop():
                if act.process <= len(self.processes):
                    self._happen(act, self.processes[act.process - 1])
            case _:
                try:
                    self.note(self.actor.act(act))
                except StatusError as refused:
                    self.note(f"{type(act).__name__.lower()}: refused, {refused}")
                return
        self.note(str(act))

    def _happen(self, act: ProcessAct, process: ProcessView) -> None:
        match act:
            case Kill():
                process.kill("killed")
            case Freeze(seconds=seconds):
                process.freeze(seconds)
            case CutOff(seconds=seconds):
                process.transport.cut(seconds)
            case Stop(seconds=seconds):
                process.stop(seconds)

    def note(self, text: str) -> None:
        """Record in the trace of the run what a user did."""
        self.acts.append(TimedAct(loop_time(), text))

    # --- judging ----------------------------------------------------------------------------------

    def violate(self, rule: str, text: str) -> None:
        """Record that an invariant does not hold: once each, and not if the scenario is `without` it."""
        found = Violation(rule, text, loop_time())
        if rule not in self._ignored and found not in self.violations:
            self.violations.append(found)

    def mark_rest(self) -> None:
        """Count requests from here on, for `requests_since_rest`."""
        self._counted = {process.number: len(process.transport.requests) for process in self.processes}


def _body(stored: Stored, served: ServedResource) -> bytes:
    try:
        return body_in(stored, served)
    except Unconverted:
        return finished(shown(stored, served))  # the conversion of a test never waits
