"""What a CustomResourceDefinition must be, as apiextensions' validation says it.

What all versions have alike is a part of the definition itself there, which the places of causes show:
`spec.validation` for the schema of all versions, `spec.versions[0].schema` for that of one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from informers.apimachinery.name_rules import service_name_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object, required
from reconcile.embedded.kinds.selectable_fields import selectable_causes
from reconcile.embedded.kinds.webhook_clients import (
    bundle_causes,
    client_causes,
    knows_review,
    review_version_causes,
)
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)
from reconcile.embedded.schema import check_structural

COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")
_APPROVAL: Final = "api-approved.kubernetes.io"
_COMMUNITY_GROUPS: Final = (".k8s.io", ".kubernetes.io")
_POLICY: Final = "https://github.com/kubernetes/enhancements/pull/1111"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#]+\S*")
# validateDeprecationWarning of apiextensions.
_MAX_WARNING: Final = 256
_SHARED_PARTS: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""The parts of versions, by what the definition calls them where all versions have the same."""

Version = Mapping[str, Any]


def validate_definition(definition: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = definition.get("spec") or {}
    if old is None:
        yield from _own_name_causes(definition["metadata"], spec)
    yield from _group_causes(spec.get("group") or "")
    yield from _enum_causes(spec.get("scope") or "", "spec.scope", _SCOPES)
    yield from _versions_causes(spec, None if old is None else old["spec"])
    yield from _name_causes(spec.get("names") or {}, "spec.names")
    for field in ("plural", "singular", "kind", "listKind"):
        yield from required(spec.get("names") or {}, "spec.names", field)
    known = old is None or _knew_review(old["spec"])
    yield from _conversion_causes(spec.get("conversion") or {}, known=known)
    yield from _unknown_field_causes(spec)
    if old is not None:
        yield from _change_causes(spec, old)
    yield from _stored_version_causes(spec, definition.get("status") or {})
    yield from _approval_causes(definition["metadata"], spec.get("group") or "", old)


def validate_definition_status(definition: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a status that is written through its subresource."""
    names = (definition.get("status") or {}).get("acceptedNames") or {}
    yield from _name_causes(names, "status.acceptedNames")


# --- names --------------------------------------------------------------------------------------


def _own_name_causes(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldCause]:
    expected = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    why = f'must be spec.names.plural+"."+spec.group ({expected})'
    for field in ("name", "generateName"):
        name = metadata.get(field) or ""
        if name and name != expected:
            yield value_invalid(f"metadata.{field}", name, why)


def _group_causes(group: str) -> Iterator[FieldCause]:
    if not group:
        yield value_required("spec.group")
    elif faults := subdomain_faults(group):
        yield value_invalid("spec.group", group, ",".join(faults))
    elif "." not in group:
        yield value_invalid("spec.group", group, "should be a domain with at least one dot")


def _approval_causes(
    metadata: Mapping[str, Any], group: str, old: Mapping[str, Any] | None
) -> Iterator[FieldCause]:
    """In the community's groups, an API must be reviewed, or be annotated as unreviewed."""
    if not f".{group}".endswith(_COMMUNITY_GROUPS):
        return
    given, state = _approval(metadata)
    if old is not None and _approval(old["metadata"])[1] == state:
        return
    where = f"metadata.annotations[{_APPROVAL}]"
    rule = f'protected groups must have approval annotation "{_APPROVAL}"'
    if state == "missing":
        yield value_required(where, f"{rule}, see {_POLICY}")
    elif state == "invalid":
        why = f'{rule} with either a URL or a reason starting with "unapproved", see {_POLICY}'
        yield value_invalid(where, given, why)


def _approval(metadata: Mapping[str, Any]) -> tuple[str, str]:
    given = (metadata.get("annotations") or {}).get(_APPROVAL) or ""
    if not given:
        return given, "missing"
    if given.startswith("unapproved"):
        return given, "bypassed"
    return given, "approved" if _URL.fullmatch(given) else "invalid"


def _name_causes(names: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        text = value.lower() if field in ("kind", "listKind") else value
        if value and (faults := service_name_faults(text)):
            yield value_invalid(f"{path}.{field}", value, ",".join(faults))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield value_invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            if faults := service_name_faults(value):
                yield value_invalid(f"{path}.{field}[{index}]", value, ",".join(faults))


def _enum_causes(value: str, path: str, values: Sequence[str]) -> Iterator[FieldCause]:
    if not value:
        yield value_required(path)
    elif value not in values:
        yield value_not_supported(path, value, values)


# --- versions -----------------------------------------------------------------------------------


def _versions_causes(spec: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldCause]:
    versions: Sequence[Version] = spec.get("versions") or []
    names = [version.get("name") or "" for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield value_invalid("spec.versions", names, "must have exactly one version marked as storage version")
    if len(set(names)) < len(names):
        yield value_invalid("spec.versions", names, "must contain unique version names")
    if names and names[0] and (faults := service_name_faults(names[0])):
        # A definition also has the name of its first version as its own.
        yield value_invalid("spec.version", names[0], ",".join(faults))
    yield from _missing_schema_causes(versions)
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        if faults := service_name_faults(names[index]):
            yield value_invalid(f"{where}.name", names[index], ",".join(faults))
        yield from _warning_causes(version, f"{where}.deprecationWarning")
    for part, check in _PARTS.items():
        for index, place in _places_of(versions, part):
            yield from check(versions, index, place, old)


def _same(versions: Sequence[Version], part: str) -> bool:
    return all((version.get(part) or None) == (versions[0].get(part) or None) for version in versions)


def _places_of(versions: Sequence[Version], part: str) -> Iterator[tuple[int, str]]:
    """The versions whose part is checked, and its place: one for all of them if they are alike."""
    if versions and _same(versions, part):
        yield 0, f"spec.{_SHARED_PARTS[part]}"
    else:
        yield from ((index, f"spec.versions[{index}].{part}") for index in range(len(versions)))


def _missing_schema_causes(versions: Sequence[Version]) -> Iterator[FieldCause]:
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield value_required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")


def _warning_causes(version: Version, path: str) -> Iterator[FieldCause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    faults = []
    if not version.get("deprecated"):
        faults = ["can only be set for deprecated versions"]
    else:
        if len(warning.encode()) > _MAX_WARNING:
            faults.append(f"must be <= {_MAX_WARNING} characters long")
        if not warning:
            faults.append("must not be an empty string")
        if not warning.isprintable():
            faults.append("must only contain printable UTF-8 characters")
    yield from (value_invalid(path, warning, fault) for fault in faults)


def _has_status(version: Version) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _schema_causes(
    versions: Sequence[Version], index: int, place: str, old: Mapping[str, Any] | None
) -> Iterator[FieldCause]:
    openapi = (versions[index].get("schema") or {}).get("openAPIV3Schema")
    if openapi is None:
        return
    shared = place == "spec.validation"
    status = any(map(_has_status, versions)) if shared else _has_status(versions[index])
    changed = _schema_of(old, versions[index].get("name")) != openapi
    yield from check_structural(openapi, f"{place}.openAPIV3Schema", status=status, costs=changed)


def _schema_of(spec: Mapping[str, Any] | None, name: Any) -> Any:
    versions: Sequence[Version] = () if spec is None else spec.get("versions") or ()
    found = next((version for version in versions if version.get("name") == name), {})
    return (found.get("schema") or {}).get("openAPIV3Schema")


def _subresource_causes(
    versions: Sequence[Version], index: int, place: str, old: Mapping[str, Any] | None
) -> Iterator[FieldCause]:
    scale = (versions[index].get("subresources") or {}).get("scale")
    if scale is None:
        return
    for field, roots, needed in (
        ("specReplicasPath", (".spec.",), True),
        ("statusReplicasPath", (".status.",), True),
        ("labelSelectorPath", (".spec.", ".status."), False),
    ):
        value, where = scale.get(field) or "", f"{place}.scale.{field}"
        if not value:
            yield from (value_required(where),) if needed else ()
        elif not value.startswith("."):
            yield value_invalid(where, value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            under = " or ".join(root.strip(".") for root in roots)
            yield value_invalid(where, value, f"should be a json path under .{under}")


def _columns_causes(
    versions: Sequence[Version], index: int, place: str, old: Mapping[str, Any] | None
) -> Iterator[FieldCause]:
    for number, column in enumerate(versions[index].get("additionalPrinterColumns") or ()):
        yield from _column_causes(column, f"{place}[{number}]")


def _column_causes(column: Mapping[str, Any], place: str) -> Iterator[FieldCause]:
    yield from required(column, place, "name")
    kind, form, path = (column.get(field) or "" for field in ("type", "format", "jsonPath"))
    of_type = f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        yield value_required(f"{place}.type", of_type)
    elif kind not in COLUMN_TYPES:
        yield value_invalid(f"{place}.type", kind, of_type)
    if form and form not in _COLUMN_FORMATS:
        yield value_invalid(f"{place}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not path:
        yield value_required(f"{place}.JSONPath")
    elif not path.startswith("."):
        yield value_invalid(f"{place}.JSONPath", path, "must be a simple json path starting with .")


def _selectable_causes(
    versions: Sequence[Version], index: int, place: str, old: Mapping[str, Any] | None
) -> Iterator[FieldCause]:
    """A real server looks for the schema beside the fields: in the version, or in the definition."""
    fields = versions[index].get("selectableFields") or ()
    shared = place == "spec.selectableFields"
    openapi = (versions[index].get("schema") or {}).get("openAPIV3Schema")
    if not fields:
        return
    if openapi is None or shared != _same(versions, "schema"):
        yield value_invalid(place, "", "may only be set together with a schema")
        return
    yield from selectable_causes(fields, openapi, place)


_Check = Callable[[Sequence[Version], int, str, Mapping[str, Any] | None], Iterator[FieldCause]]
_PARTS: Final[Mapping[str, _Check]] = {
    "schema": _schema_causes,
    "subresources": _subresource_causes,
    "additionalPrinterColumns": _columns_causes,
    "selectableFields": _selectable_causes,
}


# --- conversion and changes ---------------------------------------------------------------------


def _conversion_causes(conversion: Mapping[str, Any], *, known: bool) -> Iterator[FieldCause]:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    yield from _enum_causes(strategy, "spec.conversion.strategy", _STRATEGIES)
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or ()
    where, of_versions = "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"
    if strategy == "Webhook":
        if client is None:
            yield value_required(where, "required when strategy is set to Webhook")
        else:
            yield from client_causes(client, where)
            yield from bundle_causes(client.get("caBundle") or "", f"{where}.caBundle")
        yield from review_version_causes(versions, of_versions, known=known, need="")
        return
    why = "should not be set when strategy is not set to Webhook"
    if client is not None:
        yield value_forbidden(where, why)
    if versions:
        yield value_forbidden(of_versions, why)


def _knew_review(spec: Mapping[str, Any]) -> bool:
    webhook = (spec.get("conversion") or {}).get("webhook") or {}
    versions = webhook.get("conversionReviewVersions") or ()
    return not versions or knows_review(versions)


def _unknown_field_causes(spec: Mapping[str, Any]) -> Iterator[FieldCause]:
    if not spec.get("preserveUnknownFields"):
        return
    strategy = (spec.get("conversion") or {}).get("strategy")
    if strategy != "None":
        why = "must be None if spec.preserveUnknownFields is true"
        yield value_invalid("spec.conversion.strategy", strategy, why)
    keyword = "x-kubernetes-preserve-unknown-fields"
    why = f"cannot set to true, set {keyword} to true in spec.versions[*].schema instead"
    yield value_invalid("spec.preserveUnknownFields", True, why)
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in spec.get("versions") or ()]
    if any(map(_has_defaults, schemas)):
        why = "must be false in order to use defaults in the schema"
        yield value_invalid("spec.preserveUnknownFields", True, why)


def _has_defaults(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_defaults, schema))
    if not isinstance(schema, Mapping):
        return False
    keywords = ("items", "not", "allOf", "anyOf", "oneOf", "additionalProperties")
    below = (schema.get(keyword) for keyword in keywords)
    members = (schema.get("properties") or {}).values()
    return schema.get("default") is not None or any(map(_has_defaults, (*below, *members)))


def _change_causes(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldCause]:
    before, conditions = old["spec"], (old.get("status") or {}).get("conditions") or ()
    fixed = [("spec.group", "group"), ("spec.names.plural", "plural")]
    if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        fixed += [("spec.scope", "scope"), ("spec.names.kind", "kind")]
    for place, field in fixed:
        new, was = (part["names"] if "names" in place else part for part in (spec, before))
        if new.get(field) != was.get(field):
            yield value_invalid(place, new.get(field), "field is immutable")


def _stored_version_causes(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[FieldCause]:
    """The version that objects are stored in is noted, and none in which some may be stored is removed."""
    stored = status.get("storedVersions") or ()
    if not stored:
        yield value_invalid("status.storedVersions", [], "must have at least one stored version")
        return
    versions = spec.get("versions") or ()
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            why = f"must have the storage version {version.get('name')}"
            yield value_invalid("status.storedVersions", list(stored), why)
    known = {version.get("name") for version in versions}
    for index, name in enumerate(stored):
        if name not in known:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain there "
                f"until no object is stored in it and it is taken out of status.storedVersions"
            )
            yield value_invalid(f"status.storedVersions[{index}]", name, why)
