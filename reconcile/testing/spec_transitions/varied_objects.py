"""Which objects are varied, in which world: those of a scenario, or such as a schema allows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen

from reconcile.controller.declaration import Controller
from reconcile.models import Object, kind_of
from reconcile.models.versions import is_custom
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import DEFAULT_NAMESPACE, Apply, ScenarioAct
from reconcile.testing.spec_transitions.sample_values import JsonSchema
from reconcile.testing.spec_transitions.spec_space import made_bases
from reconcile.testing.spec_transitions.transition_player import SpecManifest
from reconcile.testing.spec_transitions.trial_server import TrialServer

_NAME: Final = "demo"

TransitionSubject: TypeAlias = (
    "Scenario | Controller[Any] | Callable[[], Controller[Any] | Iterable[Controller[Any]]]"
)
"""A scenario, a controller, or what makes the controllers of a process."""


@frozen
class VariedKind:
    """A kind whose specs are varied, the acts before, and an object of it if the scenario has one."""

    kind: type[Object]
    setup: Sequence[ScenarioAct] = ()
    sample: SpecManifest | None = None

    @property
    def namespace(self) -> str:
        """The namespace of its objects; empty if it has none."""
        if not kind_of(self.kind).resource.namespaced:
            return ""
        metadata = {} if self.sample is None else self.sample["metadata"]
        return str(metadata.get("namespace", DEFAULT_NAMESPACE))

    def bases(self, schema: JsonSchema, trial: TrialServer) -> Sequence[SpecManifest]:
        """The objects to begin with. Raises ValueError if the server admits none."""
        resource = kind_of(self.kind).resource
        place = {"namespace": self.namespace} if self.namespace else {}
        if self.sample is not None:
            users = {name: part for name, part in self.sample.items() if name != "status"}
            found: Sequence[SpecManifest] = [{**users, "metadata": {**self.sample["metadata"], **place}}]
        else:
            metadata = {"name": _NAME, **place}
            named = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
            found = made_bases(named, schema, trial)
        refusal = next(filter(None, map(trial.refusal_of, found)), "")
        if refusal:
            raise ValueError(
                f"there is no {resource.kind} to begin with: the server refuses what "
                f"{'its schema suggests' if self.sample is None else 'the step applies'}: {refusal}; give a "
                "valid one as a step of a Scenario: steps=[Apply(...)]"
            )
        return found


def scenario_of(subject: TransitionSubject) -> Scenario:
    """The scenario that a subject stands for."""
    if isinstance(subject, Scenario):
        return subject
    if isinstance(subject, Controller):
        return Scenario(controllers=lambda: subject)
    return Scenario(controllers=subject)


def varied_kinds(scenario: Scenario) -> Sequence[VariedKind]:
    """Custom kinds of the controllers: those that the steps apply, or else those that no controller owns.

    Raises ValueError if no step applies an object of these kinds, or a step before is a function.
    """
    controllers = scenario.make_controllers()
    known = {kind_of(one).resource: one for one in dict.fromkeys(one.kind for one in controllers)}
    kinds = {
        (resource.api_version, resource.kind): kind
        for resource, kind in known.items()
        if is_custom(kind) or len(known) == 1
    }
    found: dict[type[Object], VariedKind] = {}
    for number, step in enumerate(scenario.steps):
        kind = kinds.get(_kind_named(step.manifest)) if isinstance(step, Apply) else None
        if isinstance(step, Apply) and kind is not None and kind not in found:
            found[kind] = VariedKind(kind, _acts(scenario.steps[:number]), step.manifest)
    if found:
        return list(found.values())
    if scenario.steps:
        raise ValueError(
            "no step of the scenario applies an object of a kind of its controllers: add such an Apply, or "
            "leave out the steps"
        )
    owned = {kind for controller in controllers for kind in controller.owns}
    return [VariedKind(kind) for kind in kinds.values() if kind not in owned]


def _kind_named(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return str(manifest.get("apiVersion")), str(manifest.get("kind"))


def _acts(steps: Sequence[Any]) -> Sequence[ScenarioAct]:
    for step in steps:
        if callable(step):
            name = getattr(step, "__name__", step)
            raise ValueError(
                f"step {name} is a function, which transitions cannot repeat: give what it makes as objects= "
                "or as an Apply"
            )
    return tuple(steps)
