"""The stored policies of one sort that have bindings, compiled once for each version of their spec."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

from attrs import frozen

from reconcile.embedded.admission.expressions import ExpressionSet, MatchConditions
from reconcile.embedded.admission.request_matching import MatchCriteria
from reconcile.embedded.log import Log, StorageKey, StoredChange

GROUP: Final = "admissionregistration.k8s.io"
Sort = Literal["validating", "mutating"]

_NOT_SEEN: Final = frozenset(
    {
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    }
)


@frozen(slots=False)
class Policy:
    """A policy, and what is computed from it once."""

    name: str
    spec: Mapping[str, Any]
    conditions: MatchConditions
    expressions: ExpressionSet

    @classmethod
    def of(cls, name: str, spec: Mapping[str, Any]) -> "Policy":
        """A stored policy."""
        variables = tuple((entry["name"], entry["expression"]) for entry in spec.get("variables") or ())
        return cls(name, spec, MatchConditions.of(spec.get("matchConditions")), ExpressionSet(variables))

    @property
    def ignores_errors(self) -> bool:
        """Whether what fails is overlooked (`failurePolicy: Ignore`)."""
        return self.spec.get("failurePolicy") == "Ignore"

    @cached_property
    def match(self) -> MatchCriteria:
        """Which requests it is for."""
        return MatchCriteria.of(self.spec.get("matchConstraints") or {})


@frozen(slots=False)
class PolicyBinding:
    """A binding."""

    name: str
    spec: Mapping[str, Any]

    @cached_property
    def match(self) -> MatchCriteria:
        """For which requests, of those that its policy is for."""
        return MatchCriteria.of(self.spec.get("matchResources") or {})


@frozen
class BoundPolicy:
    """A policy with its bindings, of which there is at least one."""

    policy: Policy
    bindings: Sequence[PolicyBinding]


class StoredPolicies:
    """The policies of one sort in a log: a change of one is in force for the next request.

    They come in the order of their names; on a real server the order is not fixed.
    """

    def __init__(self, log: Log, sort: Sort) -> None:
        self._log = log
        self._policies: StorageKey = (GROUP, f"{sort}admissionpolicies")
        self._bindings: StorageKey = (GROUP, f"{sort}admissionpolicybindings")
        self._bound: tuple[BoundPolicy, ...] | None = None
        self._compiled: dict[tuple[str, int], Policy] = {}
        log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if change.resource in (self._policies, self._bindings):
            self._bound = None

    def bound(self) -> tuple[BoundPolicy, ...]:
        """All that have a binding; read from the log only after a change."""
        if self._bound is None:
            self._bound = self._read()
        return self._bound

    def _read(self) -> tuple[BoundPolicy, ...]:
        bindings: dict[str, list[PolicyBinding]] = {}
        for stored in self._log.snapshot(self._bindings):
            spec = stored.decode().get("spec") or {}
            bindings.setdefault(spec.get("policyName", ""), []).append(PolicyBinding(stored.key.name, spec))
        if not bindings:
            self._compiled = {}
            return ()
        compiled: dict[tuple[str, int], Policy] = {}
        bound: list[BoundPolicy] = []
        for stored in self._log.snapshot(self._policies):
            if stored.key.name not in bindings:
                continue
            obj = stored.decode()
            version = stored.uid, obj["metadata"].get("generation", 0)
            policy = self._compiled.get(version) or Policy.of(stored.key.name, obj["spec"])
            compiled[version] = policy
            bound.append(BoundPolicy(policy, bindings[stored.key.name]))
        self._compiled = compiled
        return tuple(bound)


def is_of_policies(group: str, plural: str) -> bool:
    """Whether a resource is that of policies or bindings, about which no policy is asked."""
    return group == GROUP and plural in _NOT_SEEN
