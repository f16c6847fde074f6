"""CustomResourceDefinitions: the kind, its rules, and the resources that definitions add."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from attrs import evolve

from informers.apimachinery.name_rules import label_faults, service_name_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, one_of, required
from reconcile.embedded.kubectl.discovery_documents import by_priority
from reconcile.embedded.kubectl.printing import CREATED, NAMES
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_not_supported,
    value_required,
    value_too_many,
)
from reconcile.embedded.protocol.jsonpath import BadPath, compile_path
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.schema import ResourceSchema, check_structural, compile_schema
from reconcile.embedded.schema.wellformed import JSON_SCHEMA
from reconcile.embedded.served import Conversion, Converter, PathColumn, ScalePaths, ServedResource

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
# MaxSelectableFields in apiextensions' validation.
MAX_SELECTABLE = 8

_COLUMN_FORMATS = ("int32", "int64", "float", "double", "byte", "binary", "date", "date-time", "password")
_SIMPLE_PATH = re.compile(r"(?:\.[A-Za-z_][A-Za-z0-9_-]*)+")
_APPROVAL = "api-approved.kubernetes.io"
_COMMUNITY_GROUPS = (".k8s.io", ".kubernetes.io")
_POLICY = "https://github.com/kubernetes/enhancements/pull/1111"
_URL = re.compile(r"[a-z]+://\S+$")


# --- rules ------------------------------------------------------------------------------------


def default_definition(definition: Object) -> None:
    """Fill in the names that follow from others, and the conversion strategy None."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}


def validate_definition(
    definition: Object, old: Object | None, *, converts: bool = False
) -> Iterator[FieldCause]:
    """The faults of a definition; `converts` if the server has a converter."""
    spec = definition["spec"]
    names, group = spec["names"], spec.get("group") or ""
    name, expected = definition["metadata"].get("name", ""), f"{names.get('plural', '')}.{group}"
    if name != expected:
        why = f'must be spec.names.plural+"."+spec.group ({expected})'
        yield value_invalid("metadata.name", name, why)
    yield from _group_causes(group)
    yield from _name_causes(names)
    yield from one_of(spec, "spec.scope", ("Cluster", "Namespaced"))
    yield from _version_causes(spec)
    yield from _conversion_causes(spec, converts)
    if spec.get("preserveUnknownFields"):
        keyword = "x-kubernetes-preserve-unknown-fields"
        why = f"cannot set to true, set {keyword} to true in spec.versions[*].schema instead"
        yield value_invalid("spec.preserveUnknownFields", True, why)
    if old is None:
        yield from _approval_causes(definition["metadata"], group)
    else:
        yield from _change_causes(spec, old["spec"])
        yield from _lost_version_causes(spec, old.get("status") or {})


def _group_causes(group: str) -> Iterator[FieldCause]:
    if not group:
        yield value_required("spec.group")
    elif "." not in group:
        yield value_invalid("spec.group", group, "should be a domain with at least one dot")
    else:
        yield from (value_invalid("spec.group", group, fault) for fault in subdomain_faults(group))


def _approval_causes(metadata: Mapping[str, Any], group: str) -> Iterator[FieldCause]:
    """In the community's groups, an API must be reviewed, or be annotated as unreviewed."""
    if not group.endswith(_COMMUNITY_GROUPS):
        return
    given = (metadata.get("annotations") or {}).get(_APPROVAL, "")
    where = f"metadata.annotations[{_APPROVAL}]"
    rule = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not given:
        yield value_required(where, f"{rule}, see {_POLICY}")
    elif not given.startswith("unapproved") and not _URL.match(given):
        why = f'{rule} with either a URL or a reason starting with "unapproved", see {_POLICY}'
        yield value_invalid(where, given, why)


def _name_causes(names: Object) -> Iterator[FieldCause]:
    for field in ("plural", "singular", "kind", "listKind"):
        yield from required(names, "spec.names", field)
        value = names.get(field) or ""
        text = value.lower() if field in ("kind", "listKind") else value
        for fault in service_name_faults(text) if value else ():
            yield value_invalid(f"spec.names.{field}", value, fault)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            for fault in service_name_faults(value):
                yield value_invalid(f"spec.names.{field}[{index}]", value, fault)


def _version_causes(spec: Mapping[str, Any]) -> Iterator[FieldCause]:
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield value_invalid("spec.versions", versions, why)
        yield value_invalid("status.storedVersions", [], "must have at least one stored version")
    names = [version.get("name") or "" for version in versions]
    if len(set(names)) < len(names):
        yield value_invalid("spec.versions", names, "must contain unique version names")
    for index in range(len(versions)):
        yield from _one_version_causes(versions, index)


def _part_place(versions: Sequence[Mapping[str, Any]], index: int, part: str, shared: str = "") -> str:
    """The path of a version's part in messages: a part that all versions share is the definition's."""
    if all(other.get(part) == versions[0].get(part) for other in versions):
        return f"spec.{shared or part}"
    return f"spec.versions[{index}].{part}"


def _one_version_causes(versions: Sequence[Mapping[str, Any]], index: int) -> Iterator[FieldCause]:
    version, place = versions[index], f"spec.versions[{index}]"
    for fault in label_faults(version.get("name") or ""):
        yield value_invalid(f"{place}.name", version.get("name", ""), fault)
    openapi = (version.get("schema") or {}).get("openAPIV3Schema")
    if openapi is None:
        yield value_required(f"{place}.schema.openAPIV3Schema", "schemas are required")
        return
    faults = check_structural(
        openapi, f"{_part_place(versions, index, 'schema', 'validation')}.openAPIV3Schema"
    )
    yield from faults
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _scale_causes(scale, f"{_part_place(versions, index, 'subresources')}.scale")
    columns = _part_place(versions, index, "additionalPrinterColumns")
    for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column_causes(column, f"{columns}[{number}]")
    if not faults:
        yield from _selectable_causes(version, openapi, f"{place}.selectableFields")


def _scale_causes(scale: Object, place: str) -> Iterator[FieldCause]:
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        yield from required(scale, place, field)
        value = scale.get(field) or root
        if not value.startswith(root):
            yield value_invalid(f"{place}.{field}", value, f"should be a json path under {root.rstrip('.')}")
    selector = scale.get("labelSelectorPath") or ""
    if selector and not selector.startswith((".spec.", ".status.")):
        why = "should be a json path under either .status or .spec"
        yield value_invalid(f"{place}.labelSelectorPath", selector, why)


def _column_causes(column: Object, place: str) -> Iterator[FieldCause]:
    yield from required(column, place, "name")
    kind, form, path = (column.get(field) or "" for field in ("type", "format", "jsonPath"))
    of_type = f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        yield value_required(f"{place}.type", of_type)
    elif kind not in COLUMN_TYPES:
        yield value_invalid(f"{place}.type", kind, of_type)
    if form and form not in _COLUMN_FORMATS:
        yield value_invalid(f"{place}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    yield from required(column, place, "jsonPath")
    try:
        compile_path(path or ".a")
    except BadPath as error:
        yield value_invalid(f"{place}.jsonPath", path, str(error))


def _selectable_causes(
    version: Mapping[str, Any], openapi: Mapping[str, Any], place: str
) -> Iterator[FieldCause]:
    fields = version.get("selectableFields") or ()
    if len(fields) > MAX_SELECTABLE:
        yield value_too_many(place, len(fields), MAX_SELECTABLE)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        path, where = field.get("jsonPath") or "", f"{place}[{index}].jsonPath"
        if not path:
            yield value_required(where)
        elif path in seen:
            yield value_duplicate(where, path)
        elif fault := _selectable_fault(path, openapi):
            yield value_invalid(where, path, fault)
        seen.add(path)


def _selectable_fault(path: str, openapi: Mapping[str, Any]) -> str:
    if _SIMPLE_PATH.fullmatch(path) is None:
        return "is an invalid path: only simple paths to fields, such as .spec.color, can be selected by"
    if path.startswith(".metadata"):
        return "is an invalid path: must not point to fields in metadata"
    schema: Any = openapi
    for step in path[1:].split("."):
        schema = (schema.get("properties") or {}).get(step)
        if schema is None:
            return "is an invalid path: does not refer to a valid field"
    if schema.get("type") not in ("string", "boolean", "integer"):
        return "is an invalid path: must point to a field of type string, boolean or integer"
    return ""


def _conversion_causes(spec: Mapping[str, Any], converts: bool) -> Iterator[FieldCause]:
    strategy = spec["conversion"].get("strategy")
    if strategy == "Webhook" and not converts:
        why = "conversion webhooks are not supported by the embedded server"
        yield value_invalid("spec.conversion.strategy", strategy, why)
    elif strategy not in ("None", "Webhook"):
        yield value_not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _change_causes(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldCause]:
    for place, new, before, fields in (
        ("spec", spec, old, ("group", "scope")),
        ("spec.names", spec["names"], old["names"], ("plural", "kind")),
    ):
        for field in fields:
            if new.get(field) != before.get(field):
                yield value_invalid(f"{place}.{field}", new.get(field), "field is immutable")


def _lost_version_causes(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[FieldCause]:
    """A version in which objects may be stored cannot be removed."""
    known = {version.get("name") for version in spec.get("versions") or ()}
    for index, name in enumerate(status.get("storedVersions") or ()):
        if name not in known:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain there "
                f"until no object is stored in it and it is taken out of status.storedVersions"
            )
            yield value_invalid(f"status.storedVersions[{index}]", name, why)


_COSTLY = (
    "a real server may refuse this rule as too costly; give its lists, maps and texts a maxItems, "
    "maxProperties or maxLength"
)


def definition_warnings(definition: Mapping[str, Any]) -> list[str]:
    """Warnings about rules that this server cannot evaluate, or that a real one may refuse as too costly."""
    warnings: list[str] = []
    for version in definition["spec"]["versions"]:
        schema = compile_schema((version.get("schema") or {}).get("openAPIV3Schema"))
        name = version["name"]
        warnings += [
            f"{name}: the embedded server does not evaluate {rule}" for rule in schema.unevaluated_rules
        ]
        warnings += [f"{name}: {rule}: {_COSTLY}" for rule in schema.costly_rules]
    return warnings


# --- the kind ----------------------------------------------------------------------------------


KINDS: Final = (
    BuiltInKind(
        "apiextensions.k8s.io", "CustomResourceDefinition", short_names=("crd", "crds"),
        categories=("api-extensions",), namespaced=False, has_status=True, has_generation=True,
        answers_object_on_delete=True, unconditional_update=False,
        grafts={("spec", "versions", "", "schema", "openAPIV3Schema"): JSON_SCHEMA},
        defaults=default_definition,
        checks=validate_definition,
        names_missing_fields=True,
        status_keeps=("annotations", "finalizers", "labels", "ownerReferences"),
        warnings=lambda definition, old: definition_warnings(definition),
        columns=(NAMES, CREATED),
    ),
)  # fmt: skip

CONVERTIBLE_KINDS: Final = tuple(
    evolve(kind, checks=partial(validate_definition, converts=True)) for kind in KINDS
)
"""The same on a server with a converter."""


# --- resources --------------------------------------------------------------------------------


def resources_of(
    definition: Mapping[str, Any], converter: Converter | None = None
) -> tuple[ServedResource, ...]:
    """The served versions, the most stable and newest first."""
    spec = definition["spec"]
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: by_priority(version["name"]))
    storage = next(version for version in spec["versions"] if version.get("storage"))
    kept = compile_schema(storage["schema"]["openAPIV3Schema"])
    metadata = definition.get("metadata") or {}
    made_from = f"{metadata.get('uid', '')}/{metadata.get('generation', 1)}"
    resources = tuple(
        evolve(_resource(spec, version, storage["name"], kept), made_from=made_from) for version in served
    )
    if converter is None or spec["conversion"]["strategy"] != "Webhook":
        return resources
    stored = evolve(_resource(spec, storage, storage["name"], kept), made_from=made_from)
    conversion = _conversion(spec, converter, stored)
    return tuple(evolve(resource, conversion=conversion) for resource in resources)


def _conversion(spec: Mapping[str, Any], converter: Converter, storage: ServedResource) -> Conversion:
    kept = evolve(
        storage,
        storage_schema=storage.schema,
        storage_api_version=storage.api_version,
        made_from=f"{storage.made_from}/converted",  # its bodies lack the defaults of the storage version
    )
    schemas = {
        f"{spec['group']}/{version['name']}": compile_schema(version["schema"]["openAPIV3Schema"])
        for version in spec["versions"]
    }
    return Conversion(converter, spec["conversion"].get("webhook") or {}, kept, schemas)


def _resource(
    spec: Mapping[str, Any], version: Mapping[str, Any], storage: str, kept: ResourceSchema
) -> ServedResource:
    names, group = spec["names"], spec["group"]
    openapi = version["schema"]["openAPIV3Schema"]
    subresources = version.get("subresources") or {}
    warning = version.get("deprecationWarning") or f"{group}/{version['name']} {names['kind']} is deprecated"
    return ServedResource(
        group=group,
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names["singular"],
        list_kind=names["listKind"],
        schema=kept if version.get("storage") else compile_schema(openapi),
        storage_schema=None if version.get("storage") else kept,
        storage_api_version="" if version.get("storage") else f"{group}/{storage}",
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status="status" in subresources,
        scale=_scale(subresources.get("scale")),
        custom=True,
        columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ()),
        selectable_fields=tuple(field["jsonPath"] for field in version.get("selectableFields") or ()),
        openapi=openapi,
        description=openapi.get("description", ""),
        deprecation=warning if version.get("deprecated") else "",
    )


def _scale(scale: Mapping[str, Any] | None) -> ScalePaths | None:
    if scale is None:
        return None
    selector = scale.get("labelSelectorPath") or ""
    return ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], selector)


def _column(column: Mapping[str, Any]) -> PathColumn:
    path = column["jsonPath"]
    return PathColumn(
        column["name"],
        column["type"],
        path,
        column.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        column.get("priority") or 0,
        column.get("format") or "",
    )


# --- status -----------------------------------------------------------------------------------


def name_conflict(definition: Mapping[str, Any], registry: ResourceRegistry) -> str:
    """Why the names of a definition cannot be accepted; empty if they can."""
    spec, own = definition["spec"], definition["metadata"]["name"]
    names = spec["names"]
    others = [
        resource
        for resource in registry
        if resource.group == spec["group"] and f"{resource.plural}.{resource.group}" != own
    ]
    checks: tuple[tuple[str, Callable[[ServedResource], bool]], ...] = (
        ("PluralConflict", lambda other: names["plural"] in _plain_names(other)),
        ("SingularConflict", lambda other: names["singular"] in _plain_names(other)),
        ("ShortNamesConflict", lambda other: bool(_plain_names(other) & set(names.get("shortNames") or ()))),
        ("KindConflict", lambda other: names["kind"] in (other.kind, other.list_kind)),
        ("ListKindConflict", lambda other: names["listKind"] in (other.kind, other.list_kind)),
    )
    found = [reason for reason, clashes in checks if any(clashes(other) for other in others)]
    return found[-1] if found else ""


def _plain_names(resource: ServedResource) -> set[str]:
    return {resource.plural, resource.singular, *resource.short_names}


def accepted_status(definition: Mapping[str, Any], conflict: str, now: str) -> dict[str, Any]:
    """The status of a definition; `conflict` is why its names are not accepted, or empty."""
    spec, status = definition["spec"], definition.get("status") or {}
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    stored = list(status.get("storedVersions") or ())
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    established = conditions.get("Established", {}).get("status") == "True"
    if conflict:
        changes = [("NamesAccepted", "False", conflict, "a name is already in use")]
        if not established:
            changes.append(("Established", "False", "NotAccepted", "not all names are accepted"))
        names = status.get("acceptedNames") or {"plural": "", "kind": ""}
    else:
        changes = [
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
        ]
        names = spec["names"]
    for kind, value, reason, message in changes:
        set_condition(conditions, kind, value, reason, message, now)
    return {
        "conditions": list(conditions.values()),
        "acceptedNames": names,
        "storedVersions": stored if storage in stored else [*stored, storage],
    }


def set_condition(
    conditions: dict[str, Any], kind: str, status: str, reason: str, message: str, now: str
) -> None:
    """Set one condition in place; lastTransitionTime changes only with its status."""
    before = conditions.get(kind, {})
    moved = before.get("lastTransitionTime", now) if before.get("status") == status else now
    conditions[kind] = {
        "type": kind,
        "status": status,
        "lastTransitionTime": moved,
        "reason": reason,
        "message": message,
    }
