"""What an author writes once: the controllers, what happens to them, and what must hold."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import field, frozen, validators

from reconcile.controller.declaration import Controller
from reconcile.manager.leadership import LeaderElection, LeaseTerms
from reconcile.models import Object
from reconcile.sharding.options import Sharding
from reconcile.simulation import Delays
from reconcile.testing import free_invariants
from reconcile.testing.exploration.obligations import Obligation
from reconcile.testing.fake_services.service import FakeService, services_of
from reconcile.testing.scenario_acts import ScenarioAct, manifest_of
from reconcile.testing.world import World
from reconcile.webhooks.in_process import served_by

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

ScenarioStep: TypeAlias = ScenarioAct | Callable[[World], Awaitable[None]]
"""An act, or an async function of the world."""

Invariant: TypeAlias = Callable[[World], None]
"""Raises AssertionError if it does not hold."""

Controllers: TypeAlias = "Callable[..., Controller[Any] | Iterable[Controller[Any]]]"


def _manifests(given: Iterable[Object | Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(manifest_of(obj) for obj in given)


# Converters with types: type checkers take the type of an argument from its converter.
def _steps(given: Iterable[ScenarioStep]) -> tuple[ScenarioStep, ...]:
    return tuple(given)


def _kinds(given: Iterable[type[Object]]) -> tuple[type[Object], ...]:
    return tuple(given)


def _mappings(given: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(given)


def _invariants(given: Iterable[Invariant]) -> tuple[Invariant, ...]:
    return tuple(given)


def _obligations(given: Iterable[Obligation]) -> tuple[Obligation, ...]:
    return tuple(given)


def _known(_: Any, __: Any, names: Collection[str]) -> None:
    known = free_invariants.names()
    unknown = sorted(set(names).difference(known))
    if unknown:
        raise ValueError(f"unknown invariants: {', '.join(unknown)}; without= accepts {', '.join(known)}")


@frozen(kw_only=True)
class Scenario:
    """What happens to the controllers of an operator, and what must hold whatever else goes wrong.

    `controllers` makes the controllers of a process, anew for each of its lives: what they keep in memory is
    lost. `outside` makes what exists outside the cluster and outlives a process (an account system, a DNS
    zone), anew for each run; its result is the argument of `controllers`, and `World.outside`. Where that is
    a `FakeService`, or has some as its fields or items, each of their requests may meet a fault.

    The server serves the controllers' kinds, further `kinds`, and `definitions`: CustomResourceDefinitions,
    which take precedence over that of a model. `objects` exist before any manager starts; where one has a
    uid, the owner references of later ones to it follow it.

    The `steps` happen one after another. Between two the world comes to rest, unless there is a `Wait`
    between them: then only so many seconds pass. It is at rest when nothing has changed and no fault has
    happened for `quiet_seconds`, which must be so within `limit_seconds`. Namespaces of `objects` and `steps`
    are made as needed.

    There are `replicas` managers, with a Lease if they have a `leader_election`; with `sharding` they share
    the objects. `lease_terms` are the times of these Leases. With `nodes`, simulated nodes run the pods; with
    `workloads` as well, Deployments, StatefulSets and Jobs make pods
    (`reconcile.simulation`), which do not count as the controllers' work. `lag` is how late watches are, in
    seconds, at least and at most.

    `invariants` are checked whenever the world is at rest, `always` after each change; both are functions of
    the `World` that raise AssertionError. `obligations` (`leads_to`, `always_holds`, `eventually_holds`) are
    what is owed to users: none may be open when the world is at rest. The kit's own invariants are checked
    too, except those in `without`. A process may make `most_requests` for one object while the world comes to
    rest, and fail `most_failures` times a minute for one key.

    For `fuzz`, `strategies` (of hypothesis, by kind) make the objects of users; for other kinds they are
    those that the steps apply, or else any that the model allows.

    Raises ValueError for bad numbers, unknown names in `without`, and `workloads` without `nodes`.
    """

    controllers: Controllers
    steps: Sequence[ScenarioStep] = field(default=(), converter=_steps)
    outside: Callable[[], Any] | None = None
    objects: Sequence[dict[str, Any]] = field(default=(), converter=_manifests)
    kinds: Sequence[type[Object]] = field(default=(), converter=_kinds)
    definitions: Sequence[Mapping[str, Any]] = field(default=(), converter=_mappings)
    invariants: Sequence[Invariant] = field(default=(), converter=_invariants)
    always: Sequence[Invariant] = field(default=(), converter=_invariants)
    obligations: Sequence[Obligation] = field(default=(), converter=_obligations)
    strategies: "Mapping[type[Object], SearchStrategy[Any]]" = field(factory=dict)
    without: Collection[str] = field(default=(), validator=_known)
    replicas: int = field(default=1, validator=validators.ge(1))
    leader_election: LeaderElection | None = None
    sharding: Sharding | None = None
    lease_terms: LeaseTerms = field(factory=LeaseTerms)
    nodes: Delays | None = None
    workloads: bool = False
    lag: tuple[float, float] = (0.005, 0.25)
    quiet_seconds: float = field(default=25.0, validator=validators.gt(0))
    limit_seconds: float = field(default=300.0, validator=validators.gt(0))
    restart_seconds: float = field(default=1.0, validator=validators.ge(0))
    most_requests: int = field(default=100, validator=validators.ge(1))
    most_failures: int = field(default=30, validator=validators.ge(1))

    def __attrs_post_init__(self) -> None:
        if self.workloads and self.nodes is None:
            raise ValueError("workloads=True needs nodes=Delays(), which run the pods")
        if self.sharding is not None and self.leader_election is not None:
            raise ValueError("sharding= and leader_election= exclude each other")

    def make_outside(self) -> Any:
        """What exists outside the cluster in one run, or None."""
        return None if self.outside is None else self.outside()

    def services(self) -> Sequence[FakeService]:
        """The services outside the cluster, as each run begins with them."""
        return services_of(self.make_outside())

    def make_controllers(self, outside: Any = None) -> tuple[Controller[Any], ...]:
        """The controllers of one life of a process, with the `outside` of its run or one of their own."""
        if self.outside is None:
            made = self.controllers()
        else:
            made = self.controllers(self.outside() if outside is None else outside)
        return (made,) if isinstance(made, Controller) else tuple(made)

    def served_kinds(self) -> tuple[type[Object], ...]:
        """The kinds with a model that the server serves: further ones, and those of the controllers."""
        return tuple(dict.fromkeys((*self.kinds, *served_by(self.make_controllers()))))

    def checks(self, name: str) -> bool:
        """Whether one of the kit's own invariants is checked."""
        return name not in self.without
