"""The matrix of two versions of an operator: older code, newer definition, both at once, and the way back."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen

from reconcile.manager.leadership import LeaderElection
from reconcile.models import kind_of
from reconcile.testing.end_state import ExpectedEndState, end_state_of, expected_of
from reconcile.testing.faults import FaultPlan
from reconcile.testing.redactor import Redactor
from reconcile.testing.scenario import Controllers, Scenario
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.upgrade_laws import UpgradeFault
from reconcile.testing.upgrade_stages import (
    BEFORE_ITS_DEFINITION,
    THERE_AND_BACK,
    Side,
    Stage,
    UpgradePlay,
    fresh_install,
    once,
)
from reconcile.testing.version_objects import VersionObjects, objects_of, own_kinds
from reconcile.testing.world import World

_SEEDS_APART: Final = 7_919
_MOST_SHOWN: Final = 12
_ADVICE: Final = {
    "keeps": "change the fields you know and leave the others: `ctx.client.modify`, `editing` and `apply` do",
    "resets": "set conditions with `ctx.condition`, which keeps the time while the status stays",
    "fights": "give the replicas a Lease (`leader_election=` of the Scenario, as of the Manager), or have "
    "the new version write another field",
    "storms": "have the version leave alone what it cannot keep: a field that the definition in force "
    "lacks is not stored, whatever is written",
    "succeeds": "give new fields a default, so that objects from before and definitions without them do",
    "readable": "read both forms, or add a version of the kind with functions that convert (`@converts`)",
    "reconciles": "delete what the former version made under another name (`ctx.prune`), and set every "
    "field that a version depends on",
    "starts": "let the code start with the older definition, or say in its release notes which comes first",
    "finalizers": "go on removing the finalizer of the former version",
}


class UpgradeBroken(AssertionError):
    """One version does not follow the other; the message says where, and the next step. `faults` are all."""

    def __init__(self, faults: Sequence[UpgradeFault]) -> None:
        super().__init__(_told(faults))
        self.faults = tuple(faults)

    @property
    def laws(self) -> frozenset[str]:
        """The laws that do not hold."""
        return frozenset(fault.law for fault in self.faults)


@frozen
class UpgradeReport:
    """The `combinations` of code and definitions that held, and with how many `objects` of users."""

    combinations: Sequence[str]
    objects: int

    def __str__(self) -> str:
        held = "\n".join(f"  {combination}" for combination in self.combinations)
        return f"{len(self.combinations)} combinations held for {self.objects} objects:\n{held}"


def upgrade(
    old: "Controllers | Scenario",
    new: "Controllers | Scenario",
    *,
    ignoring: Collection[str] = (),
    examples: int = 3,
    seed: int = 0,
) -> UpgradeReport:
    """Upgrade an operator, roll it back and upgrade it again, on the embedded server in virtual time.

    `old` and `new` make the controllers of the two versions, as `Scenario.controllers` does, or are
    Scenarios: `objects` are then what users of that version write, `definitions` what it ships, `invariants`
    what holds at rest while it works alone, and `strategies` draw objects. Without objects, `examples` of
    each kind are drawn from its model. All other options are those of `new`. The versions share the work
    during a rolling update as its replicas do: one leads, as in what `reconcile manifests` prints, or as a
    Scenario says with `leader_election` or `sharding`; a Scenario without these has both work at once.

    Played are: older code with its definition and with the newer one; both versions at once; newer code
    alone; both again on the way back; older code with what the newer one left; the second upgrade; the end
    of all objects; and, in another cluster, newer code that comes before its definition. In each:

    - `keeps`: no object of a user is lost or loses a field, and specs stay as users wrote them;
    - `readable`: each object can be read in each served version, and by the classes of the code at work;
    - `resets`: no condition has a new time while its status is the same;
    - `fights`, `storms`: the versions do not set one field in turns, and neither wakes itself for ever;
    - `succeeds`, `starts`: the last run of each object succeeded, and no process ended by an error;
    - `reconciles`: what a version leaves has all that a fresh install of it has, and no further objects;
    - what every `Scenario` checks: that the world comes to rest, for example.

    A definition stays when the code is rolled back. `ignoring` names fields (`sites.status.history`) that no
    law is about.

    Raises UpgradeBroken, an AssertionError that names combination, object, field and the next step;
    ValueError for Scenarios with steps, or whose replicas do not share the work in one way, and where there
    are no objects; TypeError for what makes no controllers, and for a field whose type has no strategy.
    """
    __tracebackhide__ = True
    matrix = _Matrix.of(*_versions(old, new), ignoring, examples, seed)
    faults = matrix.faults()
    if faults:
        raise UpgradeBroken(faults)
    stages = dict.fromkeys(stage.combination for stage in (*THERE_AND_BACK, *BEFORE_ITS_DEFINITION))
    return UpgradeReport(tuple(stages), sum(len(one.manifests) for one in matrix.objects.values()))


def _versions(old: "Controllers | Scenario", new: "Controllers | Scenario") -> tuple[Scenario, Scenario]:
    """Both as scenarios; what is only a function has the options of the other version. Raises TypeError."""
    for given in (old, new):
        if not isinstance(given, Scenario) and not callable(given):
            raise TypeError(
                "expected a Scenario, or a function that makes the controllers of a version, got a "
                f"{type(given).__name__}: a process that is started again has new ones"
            )
    if isinstance(old, Scenario) and isinstance(new, Scenario):
        return old, new
    if isinstance(new, Scenario):
        return _with_code(new, old), new
    if isinstance(old, Scenario):
        return old, _with_code(old, new)
    installed = Scenario(controllers=new, leader_election=LeaderElection("operator"))
    return _with_code(installed, old), installed


def _with_code(version: Scenario, controllers: Any) -> Scenario:
    return evolve(version, controllers=controllers, objects=(), definitions=(), invariants=(), strategies={})


def _check(old: Scenario, new: Scenario) -> None:
    for version in (old, new):
        if version.steps or version.always:
            raise ValueError("upgrade() plays steps of its own: give Scenarios without steps= and always=")
    for before, after in ((old.leader_election, new.leader_election), (old.sharding, new.sharding)):
        if before is not None and before != after:
            raise ValueError(
                f"expected versions whose replicas share the work in one way, got {before} and {after}: give "
                "leader_election= or sharding= of the old Scenario to the new one too. upgrade() does not "
                "play a rollout that stops all replicas first (strategy: Recreate)"
            )


# --- playing ----------------------------------------------------------------------------------------


@frozen
class _Matrix:
    versions: dict[Side, Scenario]
    objects: dict[Side, VersionObjects]
    redactor: Redactor
    ignoring: frozenset[str]
    seed: int
    _fresh: dict[Side, ExpectedEndState] = field(factory=dict, init=False)

    @classmethod
    def of(
        cls, old: Scenario, new: Scenario, ignoring: Collection[str], examples: int, seed: int
    ) -> "_Matrix":
        _check(old, new)
        alike = evolve(
            new,
            controllers=old.controllers,
            objects=old.objects,
            definitions=old.definitions,
            invariants=old.invariants,
            strategies=old.strategies,
        )
        objects: dict[Side, VersionObjects] = {
            "old": objects_of(alike, "old", examples),
            "new": objects_of(new, "new", examples),
        }
        if not any(one.manifests for one in objects.values()):
            raise ValueError(
                "there are no objects to upgrade: the controllers keep no kind of their own, so give "
                "Scenario(controllers=..., objects=[...])"
            )
        redactor = Redactor((*alike.served_kinds(), *new.served_kinds()))
        return cls({"old": alike, "new": new}, objects, redactor, frozenset(ignoring), seed)

    def faults(self) -> Sequence[UpgradeFault]:
        """Those of all combinations; what a version does wrong alone is told only if no other has it."""
        alone = [fault for side in self.versions for fault in self._install(side)]
        found = [*self._play(THERE_AND_BACK), *self._play(BEFORE_ITS_DEFINITION), *alone]
        return once(found)

    def _install(self, side: Side) -> Sequence[UpgradeFault]:
        """What fresh installs of a version leave, under two seeds, which shows what is never the same."""
        first, second = (
            self._run(fresh_install(side), seed) for seed in (self.seed, self.seed + _SEEDS_APART)
        )
        self._fresh[side] = expected_of([end_state_of(world) for _, world in (first, second)])
        return first[0]

    def _play(self, stages: Sequence[Stage]) -> Sequence[UpgradeFault]:
        return self._run(stages, self.seed)[0]

    def _run(self, stages: Sequence[Stage], seed: int) -> tuple[Sequence[UpgradeFault], World]:
        play = UpgradePlay(self.versions, self.objects, stages, self._fresh, self.redactor, self.ignoring)
        run = ScenarioRunner(self._scenario(play), references=0).run(FaultPlan(seed=seed))
        return play.told(run.violations, run.world.livelock), run.world

    def _scenario(self, play: UpgradePlay) -> Scenario:
        old, new = self.versions["old"], self.versions["new"]
        later = {kind_of(kind).resource.name for kind in own_kinds(new)}
        kinds = [kind for kind in new.served_kinds() if kind_of(kind).resource.name not in later]
        return evolve(
            old,
            steps=play.steps(),
            invariants=[play.judge],
            objects=(),
            kinds=(*old.kinds, *kinds),
            replicas=2,
        )


def _told(faults: Sequence[UpgradeFault]) -> str:
    lines = [f"  {fault}" for fault in faults[:_MOST_SHOWN]]
    if len(faults) > _MOST_SHOWN:
        lines.append(f"  … {len(faults) - _MOST_SHOWN} more …")
    advice = [
        f"  {law}: {_ADVICE[law]}" for law in dict.fromkeys(fault.law for fault in faults) if law in _ADVICE
    ]
    steps = ["next step:", *advice] if advice else []
    return "\n".join(["one version does not follow the other:", *lines, *steps])
