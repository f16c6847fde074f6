"""CustomResourceDefinitions: the rules for them, and the resources that they make."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from informers.apimachinery.name_rules import label_faults, service_name_faults, subdomain_faults
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.conversion import Converter
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
from reconcile.embedded.served import Conversion, PathColumn, ScalePaths, ServedResource

Object = dict[str, Any]

SCOPES = ("Cluster", "Namespaced")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
# MaxSelectableFields in apiextensions' validation.
MAX_SELECTABLE = 8

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_COLUMN_FORMATS = ("int32", "int64", "float", "double", "byte", "binary", "date", "date-time", "password")
_SIMPLE_PATH = re.compile(r"(?:\.[A-Za-z_][A-Za-z0-9_-]*)+")
_APPROVAL = "api-approved.kubernetes.io"
_COMMUNITY_GROUPS = (".k8s.io", ".kubernetes.io")
_POLICY = "https://github.com/kubernetes/enhancements/pull/1111"
_URL = re.compile(r"[a-z]+://\S+$")
_STABILITY = {"": 2, "beta": 1, "alpha": 0}


# --- rules ------------------------------------------------------------------------------------


def prepare_definition(definition: Object, old: Object | None) -> None:
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
) -> list[FieldCause]:
    """What is wrong about a definition; `converts`: on a server with a converter."""
    spec = definition["spec"]
    names, group = spec["names"], spec.get("group") or ""
    causes: list[FieldCause] = []
    name, wanted = definition["metadata"].get("name", ""), f"{names.get('plural', '')}.{group}"
    if name != wanted:
        causes.append(
            value_invalid("metadata.name", name, f'must be spec.names.plural+"."+spec.group ({wanted})')
        )
    causes += _group_causes(group) + _name_causes(names)
    if spec.get("scope") not in SCOPES:
        causes.append(value_not_supported("spec.scope", spec.get("scope", ""), SCOPES))
    causes += _version_causes(spec) + _conversion_causes(spec, converts)
    if spec.get("preserveUnknownFields"):
        keyword = "x-kubernetes-preserve-unknown-fields"
        why = f"cannot set to true, set {keyword} to true in spec.versions[*].schema instead"
        causes.append(value_invalid("spec.preserveUnknownFields", True, why))
    if old is None:
        causes += _approval_causes(definition["metadata"], group)
    else:
        causes += _change_causes(spec, old["spec"]) + _lost_version_causes(spec, old.get("status") or {})
    return causes


def _group_causes(group: str) -> list[FieldCause]:
    if not group:
        return [value_required("spec.group")]
    if "." not in group:
        return [value_invalid("spec.group", group, "should be a domain with at least one dot")]
    return [value_invalid("spec.group", group, fault) for fault in subdomain_faults(group)]


def _approval_causes(metadata: Mapping[str, Any], group: str) -> list[FieldCause]:
    """The community's groups are for reviewed APIs; unreviewed ones have to say that they are."""
    if not group.endswith(_COMMUNITY_GROUPS):
        return []
    given, where = (
        (metadata.get("annotations") or {}).get(_APPROVAL, ""),
        f"metadata.annotations[{_APPROVAL}]",
    )
    if not given:
        return [
            value_required(
                where, f'protected groups must have approval annotation "{_APPROVAL}", see {_POLICY}'
            )
        ]
    if given.startswith("unapproved") or _URL.match(given):
        return []
    why = (
        f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason '
        f'starting with "unapproved", see {_POLICY}'
    )
    return [value_invalid(where, given, why)]


def _name_causes(names: Mapping[str, Any]) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            causes.append(value_required(f"spec.names.{field}"))
            continue
        text = value.lower() if field in ("kind", "listKind") else value
        causes += [value_invalid(f"spec.names.{field}", value, fault) for fault in service_name_faults(text)]
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            path = f"spec.names.{field}[{index}]"
            causes += [value_invalid(path, value, fault) for fault in service_name_faults(value)]
    return causes


def _version_causes(spec: Mapping[str, Any]) -> list[FieldCause]:
    versions = spec.get("versions") or []
    causes: list[FieldCause] = []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        causes.append(value_invalid("spec.versions", versions, why))
        causes.append(value_invalid("status.storedVersions", [], "must have at least one stored version"))
    names = [version.get("name") or "" for version in versions]
    if len(set(names)) < len(names):
        causes.append(value_invalid("spec.versions", names, "must contain unique version names"))
    for index, version in enumerate(versions):
        causes += _one_version_causes(version, _Places.of(versions, index))
    return causes


@frozen
class _Places:
    """The paths of a version's parts in messages: parts that all versions share belong to the definition."""

    version: str
    schema: str
    subresources: str
    columns: str

    @classmethod
    def of(cls, versions: Sequence[Mapping[str, Any]], index: int) -> "_Places":
        """The places of the version at `index`."""
        version = f"spec.versions[{index}]"

        def shared(part: str) -> bool:
            return all(other.get(part) == versions[0].get(part) for other in versions)

        return cls(
            version,
            f"{'spec.validation' if shared('schema') else f'{version}.schema'}.openAPIV3Schema",
            f"{'spec' if shared('subresources') else version}.subresources",
            f"{'spec' if shared('additionalPrinterColumns') else version}.additionalPrinterColumns",
        )


def _one_version_causes(version: Mapping[str, Any], places: _Places) -> list[FieldCause]:
    causes = [
        value_invalid(f"{places.version}.name", version.get("name", ""), fault)
        for fault in label_faults(version.get("name") or "")
    ]
    openapi = (version.get("schema") or {}).get("openAPIV3Schema")
    if openapi is None:
        why = "schemas are required"
        return [*causes, value_required(f"{places.version}.schema.openAPIV3Schema", why)]
    faults = check_structural(openapi, places.schema)
    causes += faults
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        causes += _scale_causes(scale, f"{places.subresources}.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _column_causes(column, f"{places.columns}[{index}]")
    if not faults:
        causes += _selectable_causes(version, openapi, f"{places.version}.selectableFields")
    return causes


def _scale_causes(scale: Mapping[str, Any], place: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(field) or ""
        if not value:
            causes.append(value_required(f"{place}.{field}"))
        elif not value.startswith(root):
            why = f"should be a json path under {root.rstrip('.')}"
            causes.append(value_invalid(f"{place}.{field}", value, why))
    selector = scale.get("labelSelectorPath") or ""
    if selector and not selector.startswith((".spec.", ".status.")):
        why = "should be a json path under either .status or .spec"
        causes.append(value_invalid(f"{place}.labelSelectorPath", selector, why))
    return causes


def _column_causes(column: Mapping[str, Any], place: str) -> list[FieldCause]:
    causes = [value_required(f"{place}.name")] if not column.get("name") else []
    kind, form = column.get("type") or "", column.get("format") or ""
    if not kind:
        causes.append(value_required(f"{place}.type", f"must be one of {','.join(COLUMN_TYPES)}"))
    elif kind not in COLUMN_TYPES:
        causes.append(value_invalid(f"{place}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}"))
    if form and form not in _COLUMN_FORMATS:
        causes.append(value_invalid(f"{place}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    path = column.get("jsonPath") or ""
    if not path:
        return [*causes, value_required(f"{place}.jsonPath")]
    try:
        compile_path(path)
    except BadPath as error:
        causes.append(value_invalid(f"{place}.jsonPath", path, str(error)))
    return causes


def _selectable_causes(
    version: Mapping[str, Any], openapi: Mapping[str, Any], place: str
) -> list[FieldCause]:
    """A selectable field is a string, boolean or integer that the schema knows, outside metadata."""
    fields = version.get("selectableFields") or ()
    causes = [value_too_many(place, len(fields), MAX_SELECTABLE)] if len(fields) > MAX_SELECTABLE else []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        path, where = field.get("jsonPath") or "", f"{place}[{index}].jsonPath"
        if not path:
            causes.append(value_required(where))
        elif path in seen:
            causes.append(value_duplicate(where, path))
        elif fault := _selectable_fault(path, openapi):
            causes.append(value_invalid(where, path, fault))
        seen.add(path)
    return causes


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


def _conversion_causes(spec: Mapping[str, Any], converts: bool) -> list[FieldCause]:
    strategy = spec["conversion"].get("strategy")
    if strategy == "None" or (converts and strategy == "Webhook"):
        return []
    if strategy == "Webhook":
        why = "conversion webhooks are not supported by the embedded server"
        return [value_invalid("spec.conversion.strategy", strategy, why)]
    return [value_not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))]


def _change_causes(spec: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldCause]:
    why = "field is immutable"
    changed = [field for field in ("group", "scope") if spec.get(field) != old.get(field)]
    causes = [value_invalid(f"spec.{field}", spec.get(field), why) for field in changed]
    for field in ("plural", "kind"):
        if spec["names"].get(field) != old["names"].get(field):
            causes.append(value_invalid(f"spec.names.{field}", spec["names"].get(field), why))
    return causes


def _lost_version_causes(spec: Mapping[str, Any], status: Mapping[str, Any]) -> list[FieldCause]:
    """A version that objects may be stored in stays."""
    known = {version.get("name") for version in spec.get("versions") or ()}
    return [
        value_invalid(
            f"status.storedVersions[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain there "
            f"until no object is stored in it and it is taken out of status.storedVersions",
        )
        for index, name in enumerate(status.get("storedVersions") or ())
        if name not in known
    ]


_COSTLY = (
    "a real server may refuse this rule as too costly; give its lists, maps and texts a maxItems, "
    "maxProperties or maxLength"
)


def definition_warnings(definition: Mapping[str, Any]) -> list[str]:
    """Warnings of rules that this server cannot evaluate, or that a real one may refuse as too costly."""
    warnings: list[str] = []
    for version in definition["spec"]["versions"]:
        schema = compile_schema((version.get("schema") or {}).get("openAPIV3Schema"))
        name = version["name"]
        warnings += [
            f"{name}: the embedded server does not evaluate {rule}" for rule in schema.unevaluated_rules
        ]
        warnings += [f"{name}: {rule}: {_COSTLY}" for rule in schema.costly_rules]
    return warnings


# --- resources --------------------------------------------------------------------------------


def resources_of(
    definition: Mapping[str, Any], converter: Converter | None = None
) -> tuple[ServedResource, ...]:
    """The served versions, the most stable and newest first."""
    spec = definition["spec"]
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: version_priority(version["name"]))
    storage = next(version for version in spec["versions"] if version.get("storage"))
    kept = compile_schema(storage["schema"]["openAPIV3Schema"])
    resources = tuple(_resource(spec, version, storage["name"], kept) for version in served)
    if converter is None or spec["conversion"]["strategy"] != "Webhook":
        return resources
    conversion = _conversion(spec, converter, _resource(spec, storage, storage["name"], kept))
    return tuple(evolve(resource, conversion=conversion) for resource in resources)


def _conversion(spec: Mapping[str, Any], converter: Converter, storage: ServedResource) -> Conversion:
    kept = evolve(storage, storage_schema=storage.schema, storage_api_version=storage.api_version)
    schemas = {
        f"{spec['group']}/{version['name']}": compile_schema(version["schema"]["openAPIV3Schema"])
        for version in spec["versions"]
    }
    return Conversion(converter, spec["conversion"].get("webhook") or {}, kept, schemas)


def version_priority(version: str) -> tuple[int, int, int, int, str]:
    """A sort key: v2, v1, v1beta2, v1beta1, v1alpha1, then whatever has another form."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    return (0, -_STABILITY[match[2] or ""], -int(match[1]), -int(match[3] or 0), "")


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
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""
    )


def _column_of(column: Mapping[str, Any]) -> str:
    return f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"


def _column(column: Mapping[str, Any]) -> PathColumn:
    return PathColumn(
        name=column["name"],
        type=column["type"],
        json_path=column["jsonPath"],
        description=column.get("description") or _column_of(column),
        priority=column.get("priority") or 0,
        format=column.get("format") or "",
    )


# --- status -----------------------------------------------------------------------------------


def name_conflict(definition: Mapping[str, Any], registry: ResourceRegistry) -> str:
    """The reason for which the names of a definition cannot be accepted; empty where they can."""
    spec, own = definition["spec"], definition["metadata"]["name"]
    names = spec["names"]
    others = [
        resource for resource in registry if resource.group == spec["group"] and _defined_by(resource) != own
    ]
    checks: Iterable[tuple[str, Callable[[ServedResource], bool]]] = (
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


def _defined_by(resource: ServedResource) -> str:
    return f"{resource.plural}.{resource.group}"


def accepted_status(definition: Mapping[str, Any], conflict: str, now: str) -> dict[str, Any]:
    """The status of a definition, given the conflict (if any) that its names are in."""
    spec, status = definition["spec"], definition.get("status") or {}
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    stored = list(status.get("storedVersions") or ())
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    established = conditions.get("Established", {}).get("status") == "True"
    if conflict:
        wanted = [("NamesAccepted", "False", conflict, "a name is already in use")]
        if not established:
            wanted.append(("Established", "False", "NotAccepted", "not all names are accepted"))
        names = status.get("acceptedNames") or {"plural": "", "kind": ""}
    else:
        wanted = [
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
        ]
        names = spec["names"]
    for kind, value, reason, message in wanted:
        set_condition(conditions, kind, value, reason, message, now)
    return {
        "conditions": list(conditions.values()),
        "acceptedNames": names,
        "storedVersions": stored if storage in stored else [*stored, storage],
    }


def set_condition(
    conditions: dict[str, Any], kind: str, status: str, reason: str, message: str, now: str
) -> None:
    """Set one condition in place; its time moves only with its status."""
    before = conditions.get(kind, {})
    moved = before.get("lastTransitionTime", now) if before.get("status") == status else now
    conditions[kind] = {
        "type": kind,
        "status": status,
        "lastTransitionTime": moved,
        "reason": reason,
        "message": message,
    }
