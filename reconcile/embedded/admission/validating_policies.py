"""ValidatingAdmissionPolicies: whether they allow a request."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from reconcile.embedded.admission.attributes import AdmissionAttributes
from reconcile.embedded.admission.expressions import (
    Evaluated,
    Exhausted,
    ExpressionError,
    ExpressionInput,
    evaluates,
)
from reconcile.embedded.admission.policy_requests import (
    Invocation,
    PolicyFault,
    PolicyRequests,
    described,
    name_in_refusal,
)
from reconcile.embedded.admission.stored_policies import Policy, PolicyBinding, StoredPolicies
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.refusals import details_of

_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_INVALID: Final = "Invalid"
# MaxEvaluatedMessageExpressionSizeBytes in k8s.io/apiserver.
_MAX_MESSAGE: Final = 5 * 1024


@frozen
class Denial:
    """One validation that does not hold, or that failed."""

    message: str
    reason: str = _INVALID


@frozen
class _Refusal:
    policy: Policy
    binding: PolicyBinding | None
    denial: Denial


@frozen
class ValidatingPolicies:
    """The validating plugin of policies."""

    stored: StoredPolicies
    requests: PolicyRequests

    def in_force(self) -> bool:
        """Whether there is a policy with a binding, and CEL to evaluate it."""
        return bool(self.stored.bound()) and evaluates()

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Warn of what a binding with `Warn` denies. Raises ApiFailure for what one with `Deny` denies.

        All policies are evaluated; the refusal is the first one's.
        """
        refusals: list[_Refusal] = []
        for each in await self.requests.invocations(self.stored.bound(), attributes):
            if isinstance(each, Invocation):
                given = await self.requests.input(each, attributes)
                refusals += _refusals(each, given, attributes)
            elif not each.policy.ignores_errors:
                refusals.append(_of_fault(each))
        if refusals:
            raise _failure(refusals[0], attributes)


def _refusals(
    invocation: Invocation, given: ExpressionInput, attributes: AdmissionAttributes
) -> Iterator[_Refusal]:
    policy, binding = invocation.policy, invocation.binding
    actions = binding.spec.get("validationActions") or ()
    denials, always = judged(policy, given)
    for denial in denials:
        if "Warn" in actions:
            who = f"ValidatingAdmissionPolicy {described(policy, binding)}"
            attributes.warnings.append(f"Validation failed for {who}: {denial.message}")
        if "Deny" in actions:
            yield _Refusal(policy, binding, denial)
    yield from (_Refusal(policy, binding, denial) for denial in always)


def _of_fault(fault: PolicyFault) -> _Refusal:
    return _Refusal(fault.policy, fault.binding, Denial(fault.text))


def _failure(refusal: _Refusal, attributes: AdmissionAttributes) -> ApiFailure:
    who = f"ValidatingAdmissionPolicy {described(refusal.policy, refusal.binding)}"
    text, reason = f"{who} denied request: {refusal.denial.message}", refusal.denial.reason
    name = name_in_refusal(attributes)
    message = f'{attributes.resource.name} "{name}" is forbidden: {text}'
    details = details_of(attributes.resource, name)
    return ApiFailure(_CODES.get(reason, 422), reason, message, details, [FieldCause("", text)])


# --- one policy ---------------------------------------------------------------------------------


def judged(policy: Policy, given: ExpressionInput) -> tuple[list[Denial], list[Denial]]:
    """What a policy denies of one request, and what refuses it whatever the actions of the binding.

    The latter are audit annotations that fail. With `failurePolicy: Ignore` nothing that fails is a denial.
    """
    try:
        if not policy.conditions.hold(given):
            return [], []
        denials = list(_denials(policy, policy.expressions.begin(given)))
        failed = list(_failed_annotations(policy, policy.expressions.begin(given)))
    except ExpressionError as error:
        return _of_error(policy, error), []
    return denials, failed


def _of_error(policy: Policy, error: ExpressionError) -> list[Denial]:
    return [] if policy.ignores_errors else [Denial(str(error))]


def _denials(policy: Policy, evaluated: Evaluated) -> Iterator[Denial]:
    """Raises Exhausted if no cost is left."""
    for validation in policy.spec.get("validations") or ():
        try:
            holds = evaluated.value(validation["expression"])
        except Exhausted:
            raise
        except ExpressionError as error:
            yield from _of_error(policy, error)
            continue
        if holds is True:
            continue
        try:
            yield Denial(_message(validation, evaluated), validation.get("reason") or _INVALID)
        except Exhausted as error:
            yield from _of_error(policy, ExpressionError(f"failed messageExpression: {error}"))


def _message(validation: Mapping[str, Any], evaluated: Evaluated) -> str:
    """The result of the message expression if it is one short line, else the message, else the expression."""
    made: Any = None
    if text := validation.get("messageExpression"):
        try:
            made = evaluated.value(text)
        except Exhausted:
            raise
        except ExpressionError:
            made = None
    computed = made.strip() if isinstance(made, str) else ""
    if computed and len(computed.encode()) <= _MAX_MESSAGE and "\n" not in computed:
        return computed
    message: str = (validation.get("message") or "").strip()
    return message or f"failed expression: {validation['expression'].strip()}"


def _failed_annotations(policy: Policy, evaluated: Evaluated) -> Iterator[Denial]:
    """Audit annotations that have no value; those that have one go nowhere, since there is no audit log."""
    for annotation in policy.spec.get("auditAnnotations") or ():
        try:
            evaluated.value(annotation["valueExpression"])
        except Exhausted:
            raise
        except ExpressionError as error:
            yield from _of_error(policy, error)
