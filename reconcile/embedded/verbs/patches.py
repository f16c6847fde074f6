"""JSON patch (RFC 6902) and JSON merge patch (RFC 7396), as in the API server.

Apart from `merge_into`, functions return a new document that shares nothing with their arguments.
"""

from typing import Any, Final

from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import bad_request
from reconcile.embedded.schema import ResourceSchema
from reconcile.embedded.schema.json_patches import InapplicablePatch, apply_operations
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.verbs.strategic_merge import merge_maps

# maxJSONPatchOperations in kube-apiserver's patch.go.
MAX_OPERATIONS: Final = 10_000

_REJECTED = "the server rejected our request due to an error in our request"


def merge_patch(doc: dict[str, Any], patch: Any) -> dict[str, Any]:
    """`doc` with a merge patch. Raises ApiFailure (400) if `patch` is not an object."""
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be an object")
    return merge_into(copied(doc), copied(patch))


def merge_into(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merge in place, for callers that own both: `doc` changes, and may share parts with `patch`."""
    for name, member in patch.items():
        if member is None:
            doc.pop(name, None)
        elif isinstance(member, dict):
            value = doc.get(name)
            doc[name] = merge_into(value if isinstance(value, dict) else {}, member)
        else:
            doc[name] = without_nulls(member) if isinstance(member, list) else member
    return doc


def without_nulls(value: Any) -> Any:
    """A new list of a merge patch as the API server's library takes it, which the RFC would keep whole."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return value


def strategic_merge(doc: dict[str, Any], patch: dict[str, Any], schema: ResourceSchema) -> dict[str, Any]:
    """`doc` with a strategic merge patch, whose lists merge by the keys in the schema.

    `$patch`, `$retainKeys`, `$setElementOrder` and `$deleteFromPrimitiveList` are supported. New items of a
    list come first unless `$setElementOrder` says otherwise. Raises ApiFailure: 400 for a malformed patch,
    500 without a reason for an item that lacks its merge key.
    """
    return merge_maps(copied(doc), copied(patch), schema.whole)


def json_patch(doc: dict[str, Any], ops: Any) -> dict[str, Any]:
    """`doc` after all operations. As in the API server and unlike the RFC, `replace` may add a member.

    Raises:
        ApiFailure: 400 if `ops` is not a list of operations, 413 if there are too many, 422 if one cannot be
            applied, a `test` fails, or they copy or move too much.
    """
    if not isinstance(ops, list) or not all(isinstance(op, dict) for op in ops):
        raise bad_request("a JSON patch must be a list of operations")
    words = (op.get(name) for op in ops for name in ("op", "path", "from"))
    if not all(word is None or isinstance(word, str) for word in words):
        raise bad_request("error decoding patch: op, path and from must be strings")
    if len(ops) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}"
        raise ApiFailure(413, "RequestEntityTooLarge", message, {})
    try:
        result = apply_operations(doc, ops)
    except InapplicablePatch as error:
        raise ApiFailure(422, "Invalid", _REJECTED, {}) from error  # which a real server does not name
    if not isinstance(result, dict):
        raise ApiFailure(422, "Invalid", _REJECTED, {})
    return result
