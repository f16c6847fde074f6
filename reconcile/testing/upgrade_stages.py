"""Plays one version of an operator after another in a simulated world, and judges each stage at rest."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from informers import Key, NotFound, StatusError
from reconcile.embedded import ServedResource
from reconcile.embedded.log import StorageKey, StoredChange
from reconcile.models import DecodeError, Object, decode, kind_of
from reconcile.storms.storm_report import REASON
from reconcile.testing.cluster_actor import path_in
from reconcile.testing.end_state import ExpectedEndState, end_state_of
from reconcile.testing.redactor import Redactor
from reconcile.testing.run_records import KeyRun, Livelock, Violation
from reconcile.testing.scenario import Scenario, ScenarioStep
from reconcile.testing.scenario_acts import DEFAULT_NAMESPACE, Apply, Delete
from reconcile.testing.upgrade_laws import (
    Fields,
    Finding,
    LivingObject,
    UpgradeFault,
    VersionWrite,
    counted_without,
    fields_of_object,
    fights,
    losses,
    resets,
    unlike_fresh,
)
from reconcile.testing.version_objects import VersionObjects, definitions_of, kept_kinds
from reconcile.testing.virtual_time import loop_time, process_here
from reconcile.testing.world import World

Side: TypeAlias = Literal["old", "new"]
At: TypeAlias = Sequence[Side | None]
"""The code of each of the two processes; None: it is down."""

_EVENTS: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
_NAMESPACES: Final[StorageKey] = ("", "namespaces")
_UNCOMPARED: Final = frozenset(
    {"customresourcedefinitions", "namespaces", "serviceaccounts", "configurations"}
)

_QUIET_SECONDS: Final = 10.0
"""At the end of the time in which nothing changed: by then all first runs of a start are over."""


@frozen
class Stage:
    """One combination: the code `at` work, and what happens before it starts."""

    combination: str
    at: At
    defines: bool = False
    """Whether the newer definitions are applied."""
    writes: Sequence[Side] = ()
    """Of which versions users write objects."""
    deletes: bool = False
    as_fresh: Side | None = None
    """It must leave what a fresh install of this version leaves."""


THERE_AND_BACK: Final = (
    Stage("older code, older definition", ("old", None), writes=("old",)),
    Stage("older code, newer definition", ("old", None), defines=True, writes=("new",)),
    Stage("both, in the upgrade", ("old", "new")),
    Stage("newer code, newer definition", (None, "new"), as_fresh="new"),
    Stage("both, on the way back", ("old", "new")),
    Stage("older code, rolled back", ("old", None), as_fresh="old"),
    Stage("both, in the second upgrade", ("old", "new")),
    Stage("newer code, after the second upgrade", (None, "new"), as_fresh="new"),
    Stage("newer code, all objects deleted", (None, "new"), deletes=True),
)
BEFORE_ITS_DEFINITION: Final = (
    Stage("older code, older definition", ("old", None), writes=("old",)),
    Stage("newer code, older definition", (None, "new")),
    Stage(
        "newer code, restarted after its definition came",
        ("new", None),
        defines=True,
        writes=("new",),
        as_fresh="new",
    ),
)


def fresh_install(side: Side) -> Sequence[Stage]:
    """A version that finds all objects and the newer definition at its first start."""
    return (
        Stage("no code", (None, None), writes=("old",)),
        Stage(f"{side}er code, fresh install", (side, None), defines=True, writes=("new",)),
    )


@define
class UpgradePlay:
    """One run: the steps of its scenario, and what its stages left; `faults` of the laws judged at rest."""

    versions: Mapping[Side, Scenario]
    objects: Mapping[Side, VersionObjects]
    stages: Sequence[Stage]
    fresh: Mapping[Side, ExpectedEndState]
    redactor: Redactor
    ignoring: Collection[str]
    faults: list[UpgradeFault] = field(factory=list, init=False)
    _begun: list[float] = field(factory=list, init=False)
    _writes: list[list[VersionWrite]] = field(factory=list, init=False)
    _code: list[Side | None] = field(init=False, factory=lambda: ["old", "old"])
    _present: list[Side | None] = field(init=False, factory=lambda: ["old", "old"])
    """Of the lives under way: one that is about to end still writes as what it was."""
    _before: Mapping[LivingObject, Fields] = field(factory=dict, init=False)
    _written: set[tuple[str, str]] = field(factory=set, init=False)
    """What users wrote in the present stage: plural and key."""

    def steps(self) -> Sequence[ScenarioStep]:
        return [_step(self, stage) for stage in self.stages]

    # --- beginning --------------------------------------------------------------------------------

    def begin(self, world: World, stage: Stage) -> None:
        """Have everything happen that begins a stage."""
        if not self._begun:
            world.server.log.on_change(self._note)
        self._begun.append(loop_time())
        self._writes.append([])
        self._written = set()
        for number, side in enumerate(stage.at):
            if side is None:
                self._deploy(world, number, None)
        if stage.defines:
            self._define(world, stage)
        for side in stage.writes:
            self._write(world, self.objects[side])
        self._before = self._observe(world, stage)
        if stage.deletes:
            self._before = {}
            self._delete(world)
        for number, side in enumerate(stage.at):
            if side is not None:
                self._deploy(world, number, side)

    def _deploy(self, world: World, number: int, side: Side | None) -> None:
        if self._code[number] == side:
            return
        self._code[number] = side
        if side is None:
            world.processes[number].deploy(None)
            return
        version = self.versions[side]

        def make(outside: Any) -> Any:
            self._present[number] = side
            return version.make_controllers(outside)

        world.actor.admit(version.make_controllers(world.outside))
        world.processes[number].deploy(make)

    def _define(self, world: World, stage: Stage) -> None:
        before = self._observe(world, stage)
        for definition in definitions_of(self.versions["new"], world.actor):
            try:
                world.actor.redefine(definition)
            except StatusError as refused:
                raise AssertionError(f"the newer definition is refused: {refused}") from None
        lost = losses(before, self._observe(world, stage), self.redactor)
        self._add(stage, (finding.because("the newer definition does not have it") for finding in lost))

    def _write(self, world: World, objects: VersionObjects) -> None:
        written = 0
        for manifest in objects.manifests:
            try:
                world.actor.act(Apply(manifest))
            except (StatusError, LookupError) as refused:
                if objects.given:
                    name = f"{manifest['kind']} {manifest['metadata']['name']}"
                    raise AssertionError(f"{name}, an object of users, is refused: {refused}") from None
                continue
            written += 1
            self._written.add(_subject_of(manifest, world))
        if objects.manifests and not written:
            raise AssertionError("no object that was drawn is admitted: give the Scenario objects=")

    def _delete(self, world: World) -> None:
        paths = {(one.storage_key, key): path_in(one, key) for one, key in self._user_objects(world)}
        for path in paths.values():
            world.actor.act(Delete(path))

    def _note(self, change: StoredChange) -> None:
        number = process_here()
        side = None if number is None else self._present[number - 1]
        if side is not None:
            self._writes[-1].append(VersionWrite(f"the {side} version", change))

    # --- judging ----------------------------------------------------------------------------------

    def judge(self, world: World) -> None:
        """Judge the present stage, at rest; an invariant of the scenario."""
        stage = self.stages[len(self._begun) - 1]
        after = self._observe(world, stage)
        self._add(stage, losses(self._before, after, self.redactor))
        self._add(stage, self._resets(after))
        self._add(stage, self._failures(world))
        self._add(stage, self._deaths(world))
        self._add(stage, self._storms(world))
        self._add(stage, self._unrest(world))
        if stage.as_fresh is not None and stage.as_fresh in self.fresh:
            end, fresh = end_state_of(world), self.fresh[stage.as_fresh]
            self._add(stage, unlike_fresh(end, fresh, _UNCOMPARED, self.redactor))
        self._add(stage, self._broken_invariants(world, stage))

    def _resets(self, after: Mapping[LivingObject, Fields]) -> Iterator[Finding]:
        before = {one: fields for one, fields in self._before.items() if one[1:] not in self._written}
        return resets(before, after)

    def _failures(self, world: World) -> Iterator[Finding]:
        lives = {process.number: process.lives for process in world.processes if process.alive}
        last: dict[Any, KeyRun] = {}
        for run in world.runs:
            if lives.get(run.process) == run.life and run.outcome != "cancelled":
                last[run.process, run.controller, run.request] = run
        for run in last.values():
            if run.outcome == "error":
                subject = f"{run.controller} {run.request}"
                text = f"the {self._present[run.process - 1]} version fails: {run.message}"
                yield Finding("succeeds", "", subject, "", text)

    def _deaths(self, world: World) -> Iterator[Finding]:
        for process in world.processes:
            for death in process.deaths:
                if death.at >= self._begun[-1]:
                    side = self._present[process.number - 1]
                    yield Finding(
                        "starts", "", "", "", f"the process of the {side} version ends: {death.why}"
                    )
                    break

    def _storms(self, world: World) -> Iterator[Finding]:
        """What the managers themselves found to be storms, and slowed."""
        for one in reversed(world.changes):
            if one.at < self._begun[-1]:
                return
            if one.change.resource in _EVENTS and one.change.new is not None:
                event = one.change.new.decode()
                if event.get("reason") == REASON:
                    about = event.get("regarding") or event.get("involvedObject") or {}
                    subject = f"{about.get('kind')} {Key(about.get('namespace', ''), about.get('name', ''))}"
                    text = str(event.get("note") or event.get("message"))
                    yield Finding("storms", "", subject, "", f"a storm: {text}")

    def _unrest(self, world: World) -> Iterator[Finding]:
        """Requests for changes that go on, although none of them changes anything."""
        if not self.versions["new"].checks("stays"):
            return
        for text in dict.fromkeys(
            request.summary
            for request in world.requests_since(loop_time() - _QUIET_SECONDS)
            if request.mutating
        ):
            yield Finding("stays", "", "", "", f"{text} is sent again and again, and changes nothing")

    def _broken_invariants(self, world: World, stage: Stage) -> Iterator[Finding]:
        sides = [side for side in stage.at if side is not None]
        for invariant in self.versions[sides[0]].invariants if len(sides) == 1 else ():
            try:
                invariant(world)
            except AssertionError as error:
                name = getattr(invariant, "__name__", str(invariant))
                yield Finding(name, "", "", "", f"{name}: {error or 'does not hold'}")

    def told(self, violations: Iterable[Violation], livelock: Livelock | None) -> Sequence[UpgradeFault]:
        """All faults of the run that has ended, those of the scenario's own `violations` among them.

        A key that a storm guard held, which ended the run in a `livelock`, is a storm.

        Each is told once, in the first combination that has it.
        """
        counts = counted_without(self.ignoring)
        stages = list(zip(self.stages, self._writes, strict=False))
        for number, (stage, writes) in enumerate(stages):
            found = [finding for finding in fights(writes, self.redactor) if counts(finding)]
            if found:  # what comes later only follows from it
                told = [one for one in self.faults if one.combination in _names(self.stages[:number])]
                return once([*told, *(finding.within(stage.combination) for finding in found)])
        held = None if livelock is None else livelock.held
        for violation in violations:
            finding = Finding(violation.rule, "", "", "", violation.text)
            if held is not None and violation.rule == "converges":
                finding = Finding("storms", "", held.subject, "", f"a storm: {held.message}")
            self._add(self._stage_at(violation.at), [finding])
        order = _names(self.stages)
        return once(sorted(self.faults, key=lambda fault: order.index(fault.combination)))

    def _stage_at(self, at: float) -> Stage:
        """What is found when a stage comes to rest, the next one begins at that very time."""
        number = sum(begun < at for begun in self._begun)
        return self.stages[max(number, 1) - 1]

    def _add(self, stage: Stage, findings: Iterable[Finding]) -> None:
        counts = counted_without(self.ignoring)
        self.faults += (finding.within(stage.combination) for finding in findings if counts(finding))

    # --- observing --------------------------------------------------------------------------------

    def _observe(self, world: World, stage: Stage) -> Mapping[LivingObject, Fields]:
        """The objects of users in each version in which they are served; notes those that cannot be read."""
        found: dict[LivingObject, Fields] = {}
        models = self._models(stage)
        for resource, key in self._user_objects(world):
            subject = f"{resource.plural} {key}"
            try:
                body = world.actor.request("GET", path_in(resource, key))
            except NotFound:
                continue
            except StatusError as error:
                text = f"cannot be read in {resource.version}: {error}"
                self._add(stage, [Finding("readable", resource.plural, subject, "", text)])
                continue
            version = f"{resource.group}/{resource.version}"
            found[version, resource.plural, str(key)] = fields_of_object(body)
            self._add(stage, _misfits(models.get((version, resource.plural), ()), body, subject))
        return found

    def _models(self, stage: Stage) -> Mapping[tuple[str, str], Sequence[tuple[Side, type[Object]]]]:
        models: dict[tuple[str, str], list[tuple[Side, type[Object]]]] = {}
        for side in sorted({side for side in stage.at if side is not None}):
            for kind in kept_kinds(self.versions[side]):
                resource = kind_of(kind).resource
                name = f"{resource.group}/{resource.version}", resource.plural
                models.setdefault(name, []).append((side, kind))
        return models

    def _user_objects(self, world: World) -> Iterator[tuple[ServedResource, Key]]:
        """Each object that users applied, in each version in which it is served."""
        for resource in world.server.resources:
            for storage, key in sorted(world.actor.made):
                if storage == resource.storage_key != _NAMESPACES:
                    yield resource, key


def _subject_of(manifest: Mapping[str, Any], world: World) -> tuple[str, str]:
    served = world.actor.kind_served(manifest, "")
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", DEFAULT_NAMESPACE) if served.namespaced else ""
    return served.plural, str(Key(namespace, metadata["name"]))


def _misfits(
    models: Iterable[tuple[Side, type[Object]]], body: Mapping[str, Any], subject: str
) -> Iterator[Finding]:
    for side, model in models:
        try:
            decode(model, body)
        except DecodeError as error:
            text = f"the {side} version cannot read it: {error}"
            yield Finding("readable", kind_of(model).resource.plural, subject, "", text)


def _names(stages: Iterable[Stage]) -> Sequence[str]:
    return [stage.combination for stage in stages]


def once(faults: Iterable[UpgradeFault]) -> Sequence[UpgradeFault]:
    """Each fault in the first combination that has it."""
    told: dict[tuple[str, ...], UpgradeFault] = {}
    for fault in faults:
        told.setdefault(fault.identity, fault)
    return list(told.values())


def _step(play: UpgradePlay, stage: Stage) -> Callable[[World], Any]:
    async def step(world: World) -> None:
        play.begin(world, stage)

    step.__name__ = stage.combination
    return step
