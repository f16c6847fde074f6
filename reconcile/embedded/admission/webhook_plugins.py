"""The plugins for the webhooks of stored configurations."""

from informers.clock import Clock
from reconcile.embedded.admission.mutating_webhooks import MutatingWebhooks
from reconcile.embedded.admission.phases import Phases
from reconcile.embedded.admission.request_matching import RequestMatcher
from reconcile.embedded.admission.stored_webhooks import MUTATING, VALIDATING, StoredWebhooks
from reconcile.embedded.admission.validating_webhooks import ValidatingWebhooks
from reconcile.embedded.admission.webhook_requests import WebhookRequests
from reconcile.embedded.auth import Access
from reconcile.embedded.log import Log
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.webhook_calls import WebhookCalls


def add_webhooks(
    phases: Phases, log: Log, registry: ResourceRegistry, access: Access, calls: WebhookCalls, clock: Clock
) -> None:
    """Let both sorts run after everything that the phases have now."""
    requests = WebhookRequests(RequestMatcher(log, registry), access, calls, lambda: str(clock.uuid()))
    phases.mutating.append(MutatingWebhooks(StoredWebhooks(log, MUTATING), requests))
    phases.validating.append(ValidatingWebhooks(StoredWebhooks(log, VALIDATING), requests))
