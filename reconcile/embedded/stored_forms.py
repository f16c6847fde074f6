"""Stored objects as each version of their resource shows them, and objects as they are stored."""

from typing import Any

import msgspec
from attrs import asdict, field, frozen

from reconcile.embedded.log import Stored
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.object_metadata import annotation_causes, label_causes, type_fault
from reconcile.embedded.refusals import aggregate, bare_server_error, must_wait
from reconcile.embedded.schema import ResourceSchema
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.served import ConversionFailed, ConversionRequest, ServedResource


@frozen
class Unconverted(ApiFailure):
    """A stored object has to be converted before it can be shown; 500 where that cannot be awaited."""

    stored: Stored = field(kw_only=True)
    resource: ServedResource = field(kw_only=True)


encode = msgspec.json.encode
# What a webhook answers may also be nested too deeply, or have half of a surrogate pair.
CONVERSION_FAILURES = (ApiFailure, RecursionError, UnicodeEncodeError)


def body_in(stored: Stored, resource: ServedResource) -> bytes:
    """The object's JSON in this version of the resource, with the defaults of the current schema.

    Raises Unconverted: Await `shown` first.
    """
    if stored.encoded_by is resource and resource.storage_schema is None:
        return stored.body
    body = stored.renditions.get(resource)
    if body is None:
        if resource.conversion is not None and kept_version(stored) != resource.api_version:
            raise Unconverted(**asdict(must_wait(), recurse=False), stored=stored, resource=resource)
        body = stored.renditions[resource] = encode(_convert(stored, resource))
    return body


def object_in(stored: Stored, resource: ServedResource) -> dict[str, Any]:
    """What `body_in` returns, as a new dict."""
    decoded: dict[str, Any] = msgspec.json.decode(body_in(stored, resource))
    return decoded


def _convert(stored: Stored, resource: ServedResource) -> dict[str, Any]:
    obj = stored.decode()
    if resource.convert is not None:
        return _completed(resource.schema, resource.convert(obj, resource.api_version))
    if resource.conversion is not None:
        return _completed(resource.schema, obj)
    if resource.custom:
        _require_defined(resource, obj["apiVersion"])
    return from_storage(resource, obj)


def _require_defined(resource: ServedResource, api_version: str) -> None:
    """500 without a reason for an object that is stored in a version which its definition no longer has."""
    if api_version not in resource.versions:
        raise bare_server_error(f"request to convert CR from an invalid group/version: {api_version}")


def _completed(schema: ResourceSchema, obj: dict[str, Any]) -> dict[str, Any]:
    schema.prune(obj)
    schema.default(obj)
    return obj


def to_storage(resource: ServedResource, obj: dict[str, Any]) -> dict[str, Any]:
    """An object of this version in its stored form: `obj` itself, or a copy in the storage version.

    Without conversion the copy has another apiVersion and loses the fields that only this version has.
    Defaults of the storage version are stored by its own writes only; for others each read adds them.
    """
    if resource.storage_schema is None:
        return obj
    kept: dict[str, Any] = copied(obj)
    kept["apiVersion"] = resource.storage_api_version
    resource.storage_schema.prune(kept)
    return kept


def from_storage(resource: ServedResource, obj: dict[str, Any]) -> dict[str, Any]:
    """A stored object as this version shows it; changes `obj`.

    As in a real server, defaults are those of the storage version, and fields unknown to this version are
    pruned after them.
    """
    obj["apiVersion"] = resource.api_version
    _completed(resource.kept_schema, obj)
    if resource.storage_schema is not None:
        resource.schema.prune(obj)
    return obj


# --- conversion that waits ---------------------------------------------------------------------


def kept_version(stored: Stored) -> str:
    """The apiVersion in which an object is stored."""
    return stored.encoded_by.storage_api_version or stored.encoded_by.api_version


async def shown(stored: Stored, resource: ServedResource) -> bytes:
    """What `body_in` returns, after awaiting the converter if necessary; later calls need not wait.

    It is what the cache of a version holds in a real server, from which lists and watches are answered.
    """
    try:
        return body_in(stored, resource)
    except Unconverted:
        body = stored.renditions[resource] = encode(await shown_object(resource, stored.decode()))
        return body


async def converted_now(stored: Stored, resource: ServedResource) -> bytes:
    """What `shown` returns, but from a converter that is asked at once: a get reads past the cache."""
    if resource.conversion is None or kept_version(stored) == resource.api_version:
        return body_in(stored, resource)
    return encode(await shown_object(resource, stored.decode()))


async def shown_object(
    resource: ServedResource, kept: dict[str, Any], api_version: str = ""
) -> dict[str, Any]:
    """A stored object of a resource with a converter, as this or another version shows it; changes `kept`.

    Raises ApiFailure: 500 without a reason, as `converted`.
    """
    _require_defined(resource, kept["apiVersion"])
    _completed(resource.versions[kept["apiVersion"]], kept)
    api_version = api_version or resource.api_version
    if kept["apiVersion"] == api_version:
        return kept
    return await converted(resource, kept, api_version)


async def converted(resource: ServedResource, obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """`obj` converted by its definition's converter, and pruned; the result is not validated.

    Raises ApiFailure: 500 without a reason if the converter fails or returns another object.
    """
    conversion = resource.conversion
    assert conversion is not None
    webhook = f"conversion webhook for {obj['apiVersion']}, Kind={obj['kind']}"
    sent: dict[str, Any] = copied(obj)
    sent["metadata"].pop("resourceVersion", None)
    try:
        answered = await conversion.converter(ConversionRequest(conversion.webhook, api_version, [sent]))
    except ConversionFailed as failed:
        raise bare_server_error(f"{webhook} failed: {failed}") from failed
    if len(answered) != 1:
        raise bare_server_error(f"{webhook} returned {len(answered)} objects, expected 1")
    made = _unstructured(answered[0])
    fault = _conversion_fault(obj, made, api_version)
    if fault:
        raise bare_server_error(f"{webhook} returned invalid {fault}")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _CONVERTIBLE}
    metadata |= {name: made["metadata"][name] for name in _CONVERTIBLE if made["metadata"].get(name)}
    made["metadata"] = metadata
    resource.versions[api_version].prune(made)
    return made


_QUOTED = 1024
_CONVERTIBLE = ("labels", "annotations")  # the metadata that a converter may change


def _unstructured(made: Any) -> dict[str, Any]:
    """An object of a converter's answer, which must say what it is, as Go's unstructured decoder does."""
    if isinstance(made, dict) and isinstance(made.get("kind"), str) and made["kind"]:
        return made
    text = encode(made).decode()
    text = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
    raise bare_server_error(f"Object 'Kind' is missing in '{text}'")


def _conversion_fault(obj: dict[str, Any], made: dict[str, Any], api_version: str) -> str:
    """The fault of a converter's answer, in the words of webhook_converter.go; empty if none."""
    for name, got, expected in (
        ("groupVersion", made.get("apiVersion"), api_version),
        ("kind", made.get("kind"), obj["kind"]),
    ):
        if got != expected:
            return f"object at index 0: invalid {name} (expected {expected}, received {got})"
    metadata = made.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    for name, title in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = obj["metadata"].get(name, ""), metadata.get(name) or ""
        if before != after:
            return f"object: must have the same {title}: {before} != {after}"
    kept = {name: metadata[name] for name in _CONVERTIBLE if metadata.get(name)}
    fault = type_fault(kept)
    if not fault:
        causes = label_causes(kept.get("labels") or {})
        fault = aggregate(causes + annotation_causes(kept.get("annotations") or {}, "metadata.annotation"))
    return f"metadata: {fault}" if fault else ""
