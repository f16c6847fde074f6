"""`transitions`: plays every change of a spec that a model allows, and compares with new objects."""

from collections import Counter
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Final

from attrs import evolve

from reconcile.models import kind_of
from reconcile.testing import free_invariants
from reconcile.testing.spec_transitions.spec_space import SpecSpace, is_chosen
from reconcile.testing.spec_transitions.transition_play import TransitionPlay
from reconcile.testing.spec_transitions.transition_player import TransitionPlayer
from reconcile.testing.spec_transitions.transition_report import TransitionsReport
from reconcile.testing.spec_transitions.trial_server import TrialServer
from reconcile.testing.spec_transitions.varied_objects import TransitionSubject, scenario_of, varied_kinds

RULES: Final = ("as-new", "fails", "idempotent", "leftovers", "observed", "reads", "refusals")
"""What `transitions` checks beside the invariants of the kit."""


def transitions(
    subject: TransitionSubject,
    *,
    budget: float = 60.0,
    pairs: bool = True,
    only: str = "*",
    skip: Sequence[str] = (),
    one_way: Sequence[str] = (),
    without: Iterable[str] = (),
    invariants: bool = False,
    seed: int = 0,
) -> TransitionsReport:
    """Change a spec in every way that its model allows, and check that each change is carried out.

    For each field there is a value of each class: absent, null, empty, least, most, each choice of an enum,
    longer and shorter lists. One object gets each after each other one, there and back; with `pairs` it also
    gets combinations, until each two values of two fields have met. After each change the world has to come
    to rest as a new object with that spec leaves it (`as-new`), with no run that fails but for TerminalError
    (`fails`) and no `observedGeneration` that lags (`observed`). A run with nothing to do writes nothing
    (`idempotent`), the class reads what the schema admits (`reads`), a deletion leaves nothing (`leftovers`),
    and an invalid value is refused by its name and changes nothing (`refusals`). The kit's invariants hold
    too, except `extra-run` and those that compare runs.

    A scenario gives the world around: its `objects` are there, and of its `steps` the first object of each
    custom kind of its controllers is what is varied, after the acts before it. Otherwise objects are made up
    from the schema: one with what is required, one with all that is optional. The invariants of a scenario
    are about its own steps: they are checked with `invariants=True`.

    It ends after `budget` seconds, and says how much it played and what not; half of them at most decide
    which values the server admits. `only` is a pattern of fields, such as
    `spec.pages`, and `skip` has patterns of those that stay as they are, such as one that pauses the
    controller. `one_way` names what may depend on the past: plurals, or fields such as
    `sites.status.revision` (`[]` for any item of a list). `without` leaves out rules, and invariants of the
    kit. `seed` decides the order of tasks, the lag of watches and generated names.

    Raises BrokenTransition with the least case that was found, SimulationError if a run cannot go on,
    TypeError for a kind without a definition, and ValueError for a scenario that cannot be varied, an unknown
    rule, and a pattern of fields that there are not.
    """
    __tracebackhide__ = True
    started = perf_counter()
    left_out = frozenset(without)
    _refuse_unknown(left_out)
    if not budget >= 0:
        raise ValueError(f"budget={budget} is not a number of seconds")
    scenario = scenario_of(subject)
    if not invariants:
        scenario = evolve(scenario, invariants=(), always=())
    inherited = tuple({*scenario.without, *(left_out - {*RULES})})
    scenario = evolve(scenario, without=inherited)
    plays: list[TransitionPlay] = []
    for varied in varied_kinds(scenario):
        kind, resource = varied.kind, kind_of(varied.kind).resource
        player = TransitionPlayer(
            scenario, kind, varied.setup, seed=seed, one_way=tuple(one_way), without=left_out
        )
        trial = TrialServer(player.runner.server, kind, varied.namespace)
        schema = trial.schema()
        known: set[frozenset[bytes]] = set()
        for base in varied.bases(schema, trial):
            space = SpecSpace(
                base, schema, trial, started + budget / 2, only, tuple(skip), known=frozenset(known)
            )
            known.update(one.identity for one in space.fields)
            plays.append(TransitionPlay(player, trial, space, resource.plural, started + budget))
    _refuse_unmatched(plays, only, skip)
    for play in plays:
        play.new_objects()
    for play in plays:
        play.refusals()
    for play in plays:
        play.neighbours()
    for play in plays if pairs else ():
        play.combinations()
    return _report(plays, perf_counter() - started)


def _refuse_unknown(names: frozenset[str]) -> None:
    known = (*RULES, *free_invariants.names())
    unknown = sorted(names.difference(known))
    if unknown:
        raise ValueError(f"unknown rules: {', '.join(unknown)}; without= accepts {', '.join(known)}")


def _refuse_unmatched(plays: Sequence[TransitionPlay], only: str, skip: Sequence[str]) -> None:
    slots = [slot for play in plays for slot in (*play.space.slots, *play.space.kept)]
    for pattern in skip:
        if not any(is_chosen(slot, pattern) for slot in slots):
            raise ValueError(f"there is no field {pattern} to skip")
    if not any(play.space.fields or play.space.invalid for play in plays):
        raise ValueError(f"there is no field {only} that has two values")


def _report(plays: Sequence[TransitionPlay], seconds: float) -> TransitionsReport:
    players = list(dict.fromkeys(play.player for play in plays))
    effects: dict[str, bool] = {}
    for play in plays:
        for name, has_effect in play.effects().items():
            effects[name] = effects.get(name, False) or has_effect
    return TransitionsReport(
        fields=len({(play.plural, one.slot.name) for play in plays for one in play.space.fields}),
        transitions=sum(play.transitions for play in plays),
        in_full=sum(play.in_full for play in plays),
        specs=sum(player.specs for player in players),
        refusals=sum(play.refusals_played for play in plays),
        refusals_in_full=sum(len(play.space.invalid) for play in plays),
        pairs=sum(play.pairs for play in plays),
        pairs_in_full=sum(play.pairs_in_full for play in plays),
        unplayed=list(dict.fromkeys(one for play in plays for one in play.space.unplayed)),
        immutable=sum(play.immutable for play in plays),
        left=+sum((play.left for play in plays), Counter[str]()),
        untried=list(dict.fromkeys(name for play in plays for name in play.space.untried)),
        uncombined=sum(play.uncombined for play in plays),
        without_effect=[name for name, has_effect in effects.items() if not has_effect],
        seconds=seconds,
    )
