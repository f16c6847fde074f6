"""One call of an admission webhook: whether it is for a request, the call, and what its answer means."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from unicodedata import category

import msgspec
from attrs import frozen

from reconcile.embedded.admission.attributes import AdmissionAttributes
from reconcile.embedded.admission.expressions import ExpressionError, ExpressionInput
from reconcile.embedded.admission.request_matching import MatchedResource, RequestMatcher
from reconcile.embedded.admission.reviews import (
    Answer,
    InvalidAnswer,
    Status,
    UnreadableAnswer,
    read_answer,
    request_of,
    review_of,
)
from reconcile.embedded.admission.stored_webhooks import GROUP, Webhook
from reconcile.embedded.auth import Access
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.refusals import bad_request, forbidden
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import converted
from reconcile.embedded.webhook_calls import CallFailed, WebhookCalls

# Webhooks must not be able to lock themselves in (IsExemptAdmissionConfigurationResource).
_EXEMPT: Final = frozenset(
    {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }
)
_LEAST_REFUSAL: Final = 400
_REFUSALS: Final = range(_LEAST_REFUSAL, 600)


class WebhookFailed(Exception):
    """A call failed, and so does the request unless the webhook's `failurePolicy` is Ignore."""

    def __init__(self, webhook: Webhook, why: str) -> None:
        super().__init__(f'failed calling webhook "{webhook.name}": {why}')


@frozen
class WebhookRequests:
    """What a request is compared with, and calls are made through."""

    matcher: RequestMatcher
    access: Access
    calls: WebhookCalls
    new_uid: Callable[[], str]

    async def match(self, webhook: Webhook, attributes: AdmissionAttributes) -> "Shown | None":
        """What the webhook is shown of a request; None if it is not for it.

        Raises ApiFailure (403) if its conditions cannot be evaluated, unless failures are ignored.
        """
        if not webhook.match.rules:
            return None
        matched = self.matcher.match(webhook.match, attributes)
        if matched is None:
            return None
        shown = await Shown.of(attributes, matched)
        if not webhook.conditions.texts:
            return shown
        request = request_of(attributes, matched)
        given = ExpressionInput(request, shown.object, shown.old, attributes.user, self.access)
        try:
            return shown if webhook.conditions.hold(given) else None
        except ExpressionError as error:
            if webhook.ignores_failures:
                return None
            raise forbidden(attributes.resource, attributes.name, str(error)) from None

    async def call(
        self, webhook: Webhook, attributes: AdmissionAttributes, shown: "Shown", *, mutating: bool
    ) -> Answer:
        """Call a webhook. Raises ApiFailure if it refuses or has side effects, WebhookFailed."""
        if attributes.dry_run and not webhook.has_no_side_effects:
            raise bad_request(f'admission webhook "{webhook.name}" does not support dry run')
        uid = self.new_uid()
        body = review_of(attributes, shown.matched, shown.object, shown.old, webhook.version, uid)
        try:
            reply = await self.calls.post(webhook.client, body, webhook.seconds)
            answer = read_answer(reply, webhook.version, uid, mutating=mutating)
        except (CallFailed, UnreadableAnswer) as failed:
            raise WebhookFailed(webhook, f"failed to call webhook: {failed}") from failed
        except InvalidAnswer as fault:
            raise WebhookFailed(webhook, f"received invalid webhook response: {fault}") from fault
        attributes.warnings.extend(filter(_is_shown, answer.warnings))
        if not answer.allowed:
            raise refusal(webhook.name, answer.status)
        return answer


def is_exempt(resource: ServedResource) -> bool:
    """Whether no webhook ever sees objects of a resource."""
    return resource.group == GROUP and resource.plural in _EXEMPT


def _is_shown(warning: str) -> bool:
    """Whether a warning fits into a header; others vanish."""
    return bool(warning) and not any(category(sign) == "Cc" for sign in warning)


# --- what is shown ------------------------------------------------------------------------------


@frozen
class Shown:
    """The objects of a request in the version that a webhook matched."""

    matched: MatchedResource
    object: dict[str, Any] | None
    old: Mapping[str, Any] | None

    @classmethod
    async def of(cls, attributes: AdmissionAttributes, matched: MatchedResource) -> "Shown":
        """Converted where the webhook matched another version than that of the request."""
        if matched.kind == attributes.kind:
            return cls(matched, attributes.object, attributes.old)
        source, target = attributes.resource, matched.resource
        obj = attributes.object and await in_version(attributes.object, source, target)
        old = attributes.old and await in_version(attributes.old, source, target)
        return cls(matched, obj, old)


async def in_version(
    obj: Mapping[str, Any], source: ServedResource, target: ServedResource
) -> dict[str, Any]:
    """A copy of an object of one version of a resource in another one. Raises ApiFailure (500)."""
    made: dict[str, Any] = copied(dict(obj))
    if target.convert is not None:
        return target.convert(made, target.api_version)
    if source.conversion is not None:
        return await converted(source, made, target.api_version)
    return made | {"apiVersion": target.api_version}


# --- refusals -----------------------------------------------------------------------------------


def refusal(name: str, status: Status | None) -> ApiFailure:
    """The answer to the client when a webhook of this name refuses (ToStatusErr)."""
    status = status or Status()
    code = max(status.code or 0, _LEAST_REFUSAL)
    denied = f'admission webhook "{name}" denied the request'
    why = status.message or status.reason
    return ApiFailure(
        code if code in _REFUSALS else 500,
        status.reason or "",
        f"{denied}: {why}" if why else f"{denied} without explanation",
        *_details(status),
        metadata=_filled(status.metadata),
    )


def _details(status: Status) -> tuple[dict[str, Any] | None, list[FieldCause]]:
    if status.details is None:
        return None, []
    details = _filled(status.details)
    details.pop("causes", None)
    causes = status.details.causes or ()
    return details, [FieldCause(one.reason or "", one.message or "", one.field or "") for one in causes]


def _filled(part: msgspec.Struct | None) -> dict[str, Any]:
    members = msgspec.to_builtins(part) if part is not None else {}
    return {name: value for name, value in members.items() if value}
