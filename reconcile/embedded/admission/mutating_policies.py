"""MutatingAdmissionPolicies: what they change in an object."""

from typing import Any, Final

from attrs import frozen

from reconcile.embedded.admission.attributes import AdmissionAttributes
from reconcile.embedded.admission.expressions import ExpressionError, evaluates
from reconcile.embedded.admission.phases import Rounds
from reconcile.embedded.admission.policy_patches import UnusableMutation, configured, patched
from reconcile.embedded.admission.policy_requests import (
    Invocation,
    PolicyFault,
    PolicyRequests,
    described,
    name_in_refusal,
)
from reconcile.embedded.admission.stored_policies import StoredPolicies
from reconcile.embedded.admission.webhook_requests import in_version
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.refusals import details_of
from reconcile.embedded.schema.json_values import same

_PLUGIN: Final = "MutatingAdmissionPolicy"


@frozen
class _MutationFault:
    fault: PolicyFault
    reason: str


@frozen
class MutatingPolicies:
    """The mutating plugin of policies."""

    stored: StoredPolicies
    requests: PolicyRequests

    def in_force(self) -> bool:
        """Whether there is a policy with a binding, and CEL to evaluate it."""
        return bool(self.stored.bound()) and evaluates()

    async def admit(self, attributes: AdmissionAttributes, rounds: Rounds) -> None:
        """Mutate the object by every policy that applies, one after the other.

        Raises ApiFailure (403) with all that failed, apart from policies with `failurePolicy: Ignore`.
        """
        found = await self.requests.invocations(self.stored.bound(), attributes)
        rounds.enter(_PLUGIN, attributes.object)
        faults = [_MutationFault(each, "Forbidden") for each in found if isinstance(each, PolicyFault)]
        mutated = False
        for each in found:
            if isinstance(each, Invocation):
                applied, failed = await self._invoke(each, attributes, rounds)
                faults += [_MutationFault(fault, "Invalid") for fault in failed]
                mutated = mutated or applied
        if mutated:
            # As on a real server, where writing an object back makes all that ran so far due again.
            rounds.called(_PLUGIN, None, changed=True, if_needed=False)
        rounds.leave(_PLUGIN, attributes.object)
        if told := [fault for fault in faults if not fault.fault.policy.ignores_errors]:
            raise _failure(told, attributes)

    async def _invoke(
        self, invocation: Invocation, attributes: AdmissionAttributes, rounds: Rounds
    ) -> tuple[bool, list[PolicyFault]]:
        """Whether any mutation was applied, and what failed; a failure does not stop the next one."""
        policy, binding = invocation.policy, invocation.binding
        key = (policy.name, binding.name, _identity(invocation.params))
        try:
            if not policy.conditions.hold(await self.requests.input(invocation, attributes)):
                return False, []
        except ExpressionError as error:
            return False, [PolicyFault(policy, binding, str(error))]
        if not rounds.calls(_PLUGIN, key):
            return False, []
        before, applied = attributes.object, False
        faults: list[PolicyFault] = []
        for mutation in policy.spec.get("mutations") or () if before is not None else ():
            try:
                await self._mutate(mutation, invocation, attributes)
                applied = True
            except (ExpressionError, UnusableMutation) as error:
                faults.append(PolicyFault(policy, binding, str(error)))
        changed = not same(before, attributes.object)
        again = policy.spec.get("reinvocationPolicy") == "IfNeeded"
        rounds.called(_PLUGIN, key, changed=changed, if_needed=again)
        return applied, faults

    async def _mutate(
        self, mutation: dict[str, Any], invocation: Invocation, attributes: AdmissionAttributes
    ) -> None:
        """Raises ExpressionError or UnusableMutation, and then changes nothing."""
        given, target = await self.requests.input(invocation, attributes), invocation.matched.resource
        if given.object is None:
            return
        evaluated = invocation.policy.expressions.begin(given)
        if mutation["patchType"] == "JSONPatch":
            made = patched(given.object, evaluated.value(mutation["jsonPatch"]["expression"]))
        else:
            value = evaluated.value(mutation["applyConfiguration"]["expression"])
            made = configured(target.schema.whole, given.object, value)
        if invocation.matched.kind != attributes.kind:
            made = await in_version(made, target, attributes.resource)
        attributes.object = attributes.decode(made)


def _identity(params: Any) -> tuple[str, str] | None:
    if params is None:
        return None
    metadata = params["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _failure(faults: list[_MutationFault], attributes: AdmissionAttributes) -> ApiFailure:
    texts = [
        f"policy {described(each.fault.policy, each.fault.binding)} denied request: {each.fault.text}"
        for each in faults
    ]
    details = details_of(attributes.resource, name_in_refusal(attributes))
    causes = [FieldCause("", text) for text in texts]
    return ApiFailure(403, faults[0].reason, texts[0], details, causes)
