"""What policies of one sort are asked about a request: their bindings and parameters that apply."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from informers.resource import Key
from reconcile.embedded.admission.attributes import AdmissionAttributes
from reconcile.embedded.admission.expressions import ExpressionInput
from reconcile.embedded.admission.policy_params import PolicyParams, UnusableParams
from reconcile.embedded.admission.request_matching import MatchedResource, RequestMatcher
from reconcile.embedded.admission.reviews import request_of
from reconcile.embedded.admission.stored_policies import BoundPolicy, Policy, PolicyBinding, is_of_policies
from reconcile.embedded.admission.webhook_requests import Shown
from reconcile.embedded.auth import Access
from reconcile.embedded.log import Log
from reconcile.embedded.served import ServedResource

_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


@frozen
class Invocation:
    """A policy that is asked through one binding, with one parameter."""

    policy: Policy
    binding: PolicyBinding
    matched: MatchedResource
    params: Mapping[str, Any] | None


@frozen
class PolicyFault:
    """Why a policy, or one binding of it, cannot be asked; the text is that of a real server."""

    policy: Policy
    binding: PolicyBinding | None
    text: str


@frozen
class PolicyRequests:
    """Where what policies are asked about is looked up."""

    log: Log
    access: Access
    matcher: RequestMatcher
    params: PolicyParams

    async def invocations(
        self, bound: Sequence[BoundPolicy], attributes: AdmissionAttributes
    ) -> list[Invocation | PolicyFault]:
        """What applies to a request, in the order of policies and bindings."""
        if not _are_asked(attributes.resource):
            return []
        found: list[Invocation | PolicyFault] = []
        for each in bound:
            matched = self.matcher.match(each.policy.match, attributes)
            if matched is not None:
                found += await self._of_policy(each, matched, attributes)
        return found

    async def _of_policy(
        self, bound: BoundPolicy, matched: MatchedResource, attributes: AdmissionAttributes
    ) -> list[Invocation | PolicyFault]:
        policy = bound.policy
        kind = policy.spec.get("paramKind")
        try:
            if kind is not None:
                self.params.kind_of(kind)
        except UnusableParams as error:
            return [PolicyFault(policy, None, f"failed to configure policy: {error}")]
        found: list[Invocation | PolicyFault] = []
        for binding in bound.bindings:
            if self.matcher.match(binding.match, attributes) is None:
                continue
            try:
                reference = binding.spec.get("paramRef")
                params = await self.params.find(kind, reference, attributes.namespace)
            except UnusableParams as error:
                found.append(PolicyFault(policy, binding, f"failed to configure binding: {error}"))
            else:
                found += [Invocation(policy, binding, matched, each) for each in params]
        return found

    async def input(self, invocation: Invocation, attributes: AdmissionAttributes) -> ExpressionInput:
        """What the expressions of a policy read."""
        shown = await Shown.of(attributes, invocation.matched)
        return ExpressionInput(
            request_of(attributes, invocation.matched),
            shown.object,
            shown.old,
            attributes.user,
            self.access,
            self._namespace(attributes),
            invocation.params,
        )

    def _namespace(self, attributes: AdmissionAttributes) -> dict[str, Any] | None:
        if not attributes.resource.namespaced:
            return None
        stored = self.log.get(("", "namespaces"), Key("", attributes.namespace))
        return None if stored is None else stored.decode()


def _are_asked(resource: ServedResource) -> bool:
    """Whether policies are asked about a resource: neither about policies, nor about reviews of access."""
    return not (
        is_of_policies(resource.group, resource.plural)
        or (resource.create_only and resource.group in _REVIEWS)
    )


# --- refusals -----------------------------------------------------------------------------------


def name_in_refusal(attributes: AdmissionAttributes) -> str:
    """The name of the object as refusals have it, also before one is generated."""
    if attributes.name:
        return attributes.name
    metadata = (attributes.object or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def described(policy: Policy, binding: PolicyBinding | None) -> str:
    """`'policy' with binding 'binding'`."""
    return f"'{policy.name}'" if binding is None else f"'{policy.name}' with binding '{binding.name}'"
