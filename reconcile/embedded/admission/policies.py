"""The plugins of policies, set up for one server."""

from reconcile.embedded.admission.mutating_policies import MutatingPolicies
from reconcile.embedded.admission.phases import Phases
from reconcile.embedded.admission.policy_params import PolicyParams
from reconcile.embedded.admission.policy_requests import PolicyRequests
from reconcile.embedded.admission.request_matching import RequestMatcher
from reconcile.embedded.admission.stored_policies import StoredPolicies
from reconcile.embedded.admission.validating_policies import ValidatingPolicies
from reconcile.embedded.auth import Access
from reconcile.embedded.log import Log
from reconcile.embedded.registry import ResourceRegistry


def add_policies(phases: Phases, log: Log, registry: ResourceRegistry, access: Access) -> None:
    """Have both phases begin with the policies in a log."""
    matcher = RequestMatcher(log, registry)
    requests = PolicyRequests(log, access, matcher, PolicyParams(log, registry))
    phases.mutating.insert(0, MutatingPolicies(StoredPolicies(log, "mutating"), requests))
    phases.validating.insert(0, ValidatingPolicies(StoredPolicies(log, "validating"), requests))
