"""Mutating webhooks: one after the other, each with the changes of those before it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import frozen

from reconcile.embedded.admission.attributes import AdmissionAttributes
from reconcile.embedded.admission.phases import Rounds
from reconcile.embedded.admission.reviews import Answer
from reconcile.embedded.admission.stored_webhooks import StoredWebhooks, Webhook
from reconcile.embedded.admission.webhook_requests import (
    Shown,
    WebhookFailed,
    WebhookRequests,
    in_version,
    is_exempt,
)
from reconcile.embedded.protocol.json_faults import json_fault, json_type
from reconcile.embedded.refusals import internal
from reconcile.embedded.schema.json_patches import InapplicablePatch, apply_operations
from reconcile.embedded.schema.json_values import is_deeper, same

_PLUGIN: Final = "webhooks"
_JSON_PATCH: Final = "JSONPatch"
MAX_DEPTH: Final = 200
"""Nesting of a patched object, as of one in a request."""
MAX_OPERATIONS: Final = 10_000
"""Operations of a patch, as of one in a request."""


@frozen
class MutatingWebhooks:
    """A `MutatingPlugin`."""

    stored: StoredWebhooks
    requests: WebhookRequests

    def in_force(self) -> bool:
        return self.stored.any()

    async def admit(self, attributes: AdmissionAttributes, rounds: Rounds) -> None:
        """Call what matches, in order. Raises ApiFailure if one refuses, fails, or sends a bad patch."""
        if is_exempt(attributes.resource):
            return
        rounds.enter(_PLUGIN, attributes.object)
        written = not (rounds.again or rounds.changed)
        for webhook in self.stored:
            shown = await self.requests.match(webhook, attributes)
            if shown is None or not rounds.calls(_PLUGIN, webhook.key):
                continue
            changed, before = False, attributes.object
            try:
                changed = await self._call(webhook, attributes, shown)
            except WebhookFailed as failed:
                if not webhook.ignores_failures:
                    raise internal(str(failed)) from failed
            if attributes.object is not before:
                changed = changed or (written and _has_new_times(before, attributes))
                written = False
            rounds.called(_PLUGIN, webhook.key, changed=changed, if_needed=webhook.if_needed)
        rounds.leave(_PLUGIN, attributes.object)

    async def _call(self, webhook: Webhook, attributes: AdmissionAttributes, shown: Shown) -> bool:
        """Call a webhook and apply its patch; whether that changed anything."""
        answer = await self.requests.call(webhook, attributes, shown, mutating=True)
        operations = _operations(webhook, answer)
        if not operations:
            return False
        if shown.object is None:
            what = f'admission webhook "{webhook.name}" attempted to modify the object'
            raise internal(f"{what}, which is not supported for this operation")
        if answer.patch_type != _JSON_PATCH:
            raise WebhookFailed(webhook, f'unsupported patch type "{answer.patch_type}"')
        made = _patched(shown.object, operations)
        changed = not same(shown.object, made)
        if shown.matched.kind != attributes.kind:
            made = await in_version(made, shown.matched.resource, attributes.resource)
        attributes.object = attributes.decode(made)
        return changed


def _has_new_times(obj: Mapping[str, Any] | None, attributes: AdmissionAttributes) -> bool:
    """Whether managed fields of a built-in kind have a time that this request set.

    A real server has it with its fraction of a second, which is lost when it reads the result of the first
    patch, so that any patch counts as a change.
    """
    if attributes.resource.custom or obj is None:
        return False
    before = (attributes.old or {}).get("metadata", {}).get("managedFields") or ()
    return any(entry not in before for entry in obj["metadata"].get("managedFields") or ())


# --- patches ------------------------------------------------------------------------------------


def _operations(webhook: Webhook, answer: Answer) -> Sequence[Mapping[str, Any]]:
    if not answer.patch:
        return ()
    fault = ""
    try:
        operations = msgspec.json.decode(answer.patch)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fault = json_fault(answer.patch)
    else:
        fault = _type_fault(operations)
    if fault:
        raise WebhookFailed(webhook, f"received undecodable patch in webhook response: {fault}")
    return operations or ()


def _type_fault(operations: Any) -> str:
    """Why Go cannot decode a patch; empty if it can."""
    if operations is None:
        return ""
    if not isinstance(operations, list):
        return f"json: cannot unmarshal {json_type(operations)} into Go value of type jsonpatch.Patch"
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            return f"json: cannot unmarshal {json_type(operation)} into Go value of type jsonpatch.Operation"
    return ""


def _patched(obj: dict[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The result of a patch. Raises ApiFailure (500) if it does not apply, whatever the failure policy."""
    if len(operations) > MAX_OPERATIONS:
        raise internal(f"the patch has {len(operations)} operations, more than {MAX_OPERATIONS}")
    words = (operation.get(name) for operation in operations for name in ("op", "path", "from"))
    if not all(word is None or isinstance(word, str) for word in words):
        raise internal("op, path and from of an operation must be strings")
    try:
        made = apply_operations(obj, operations)
    except InapplicablePatch as error:
        raise internal(str(error)) from None
    if not isinstance(made, dict):
        raise internal(f"json: cannot unmarshal {json_type(made)} into Go value of type struct")
    if is_deeper(made, MAX_DEPTH):
        raise internal("the object is nested too deeply: exceeded max depth")
    return made
