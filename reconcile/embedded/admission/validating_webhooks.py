"""Validating webhooks: all that match are called at once."""

import asyncio

import anyio
from attrs import frozen

from reconcile.embedded.admission.attributes import AdmissionAttributes
from reconcile.embedded.admission.stored_webhooks import StoredWebhooks, Webhook
from reconcile.embedded.admission.webhook_requests import (
    Shown,
    WebhookFailed,
    WebhookRequests,
    is_exempt,
)
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import internal


@frozen
class ValidatingWebhooks:
    """A `ValidatingPlugin`."""

    stored: StoredWebhooks
    requests: WebhookRequests

    def in_force(self) -> bool:
        return self.stored.any()

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Raises ApiFailure: of several refusals, that of the webhook that comes first."""
        if is_exempt(attributes.resource):
            return
        matching: list[tuple[Webhook, Shown]] = []
        for webhook in self.stored:
            shown = await self.requests.match(webhook, attributes)
            if shown is not None:
                matching.append((webhook, shown))
        if not matching:
            return
        failures: list[ApiFailure | None] = [None] * len(matching)

        async def call(place: int, webhook: Webhook, shown: Shown) -> None:
            failures[place] = await self._failure(webhook, attributes, shown)

        if len(matching) == 1:
            await call(0, *matching[0])
        else:
            await asyncio.sleep(0)  # where a request cannot wait it ends here, with no task begun
            async with anyio.create_task_group() as group:
                for place, (webhook, shown) in enumerate(matching):
                    group.start_soon(call, place, webhook, shown)
        for failure in failures:
            if failure is not None:
                raise failure

    async def _failure(
        self, webhook: Webhook, attributes: AdmissionAttributes, shown: Shown
    ) -> ApiFailure | None:
        try:
            await self.requests.call(webhook, attributes, shown, mutating=False)
        except ApiFailure as refused:
            return refused
        except WebhookFailed as failed:
            return None if webhook.ignores_failures else internal(str(failed))
        return None
