"""What an author writes once: the controllers, what happens to them, and what must always hold."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from attrs import field, frozen, validators

from reconcile.controller.declaration import Controller
from reconcile.manager.leadership import LeaderElection
from reconcile.models import Object
from reconcile.simulation import Delays
from reconcile.testing.acts import Act, manifest_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from reconcile.testing.world import World

Step: TypeAlias = "Act | Callable[[World], Awaitable[None]]"
"""What happens next: an act, or a function of the world that does whatever it likes."""

Invariant: TypeAlias = "Callable[[World], None]"
"""Raises AssertionError where the world is not as it must be."""

FreeInvariant = Literal[
    "converges", "stays", "extra-run", "end-state", "creates", "deletes", "orphans", "finalizers",
    "generations", "backs-off", "requests", "leader", "declared",
]  # fmt: skip
FREE_INVARIANTS: tuple[FreeInvariant, ...] = get_args(FreeInvariant)
"""The names of what holds of every operator, which `Scenario(without=)` may leave out."""

Controllers: TypeAlias = "Callable[..., Controller[Any] | Iterable[Controller[Any]]]"


def _manifests(given: Iterable[Object | Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(manifest_of(obj) for obj in given)


# Converters with types: attrs tells checkers what may be given by what its converter takes.
def _steps(given: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(given)


def _kinds(given: Iterable[type[Object]]) -> tuple[type[Object], ...]:
    return tuple(given)


def _mappings(given: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(given)


def _invariants(given: Iterable[Invariant]) -> tuple[Invariant, ...]:
    return tuple(given)


def _known(_: Any, __: Any, names: Collection[str]) -> None:
    unknown = sorted(set(names) - set(FREE_INVARIANTS))
    if unknown:
        raise ValueError(
            f"not invariants of the kit: {', '.join(unknown)}; those are {', '.join(FREE_INVARIANTS)}"
        )


@frozen(kw_only=True)
class Scenario:
    """One story of a cluster, to be told under every fault.

    `controllers` makes the controllers of a process, anew for each of its lives: what they keep in
    memory dies with it. `outside` makes what is outside the cluster and outlives a process (an account
    system, a DNS zone): anew for each run, handed to `controllers` as their one argument, and to be found
    at `World.outside`.

    The controllers' kinds are defined, and so are further `kinds`, and `definitions`, which are
    CustomResourceDefinitions and go before a model's own. `objects` are there before any manager starts.

    The `steps` happen one after the other. Between two the world comes to rest, unless there is a `Wait`
    between them: then only so many seconds pass. It is at rest when nothing has changed for `quiet_seconds`,
    and must be within `limit_seconds`. `objects` and `steps` of another namespace than `default` need
    no Namespace: it is made.

    Of the managers there are `replicas`, with `leader_election` if they have a Lease. With `nodes`,
    simulated nodes run the pods; with `workloads` as well, Deployments, StatefulSets and Jobs make them
    (`reconcile.simulation`). What those make and delete is not counted as the
    controllers'. `lag` is how late watches are, in seconds, at least and at most.

    `invariants` are checked whenever the world is at rest, `always` after every single change; both
    are functions of the `World` that raise AssertionError. Of the kit's own (`FREE_INVARIANTS`) those
    `without` are not checked. A process may make `most_requests` for one object while the world comes
    to rest, and may fail `most_failures` times a minute for one key.

    For `fuzz`, `strategies` (of hypothesis, by kind) say which objects users make; without one for a kind
    they are those that the steps apply, and where there are none any that its model allows.

    Raises ValueError for bad numbers, unknown names in `without`, and `workloads` without `nodes`.
    """

    controllers: Controllers
    steps: Sequence[Step] = field(default=(), converter=_steps)
    outside: Callable[[], Any] | None = None
    objects: Sequence[dict[str, Any]] = field(default=(), converter=_manifests)
    kinds: Sequence[type[Object]] = field(default=(), converter=_kinds)
    definitions: Sequence[Mapping[str, Any]] = field(default=(), converter=_mappings)
    invariants: Sequence[Invariant] = field(default=(), converter=_invariants)
    always: Sequence[Invariant] = field(default=(), converter=_invariants)
    strategies: "Mapping[type[Object], SearchStrategy[Any]]" = field(factory=dict)
    without: Collection[str] = field(default=(), validator=_known)
    replicas: int = field(default=1, validator=validators.ge(1))
    leader_election: LeaderElection | None = None
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
            raise ValueError("workloads=True needs nodes=Delays(): nothing would run the pods")

    def make_outside(self) -> Any:
        """What is outside the cluster in one run; None where there is nothing."""
        return None if self.outside is None else self.outside()

    def make_controllers(self, outside: Any = None) -> tuple[Controller[Any], ...]:
        """The controllers of one life of a process; `outside` is that of its run, or one of their own."""
        if self.outside is None:
            made = self.controllers()
        else:
            made = self.controllers(self.outside() if outside is None else outside)
        return (made,) if isinstance(made, Controller) else tuple(made)

    def checks(self, name: FreeInvariant) -> bool:
        """Whether an invariant of the kit is checked."""
        return name not in self.without


@frozen
class Violation:
    """Something that must hold and did not: the invariant's name, and what was seen.

    `at` is the virtual time in seconds; it is no part of what makes two violations the same.
    """

    rule: str
    text: str
    at: float = field(default=0.0, eq=False)

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"
