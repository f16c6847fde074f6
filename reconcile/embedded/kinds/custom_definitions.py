"""CustomResourceDefinitions: the kind, what the server sets in it, and the resources that definitions add."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attrs import evolve

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill
from reconcile.embedded.kinds.definition_rules import validate_definition, validate_definition_status
from reconcile.embedded.kubectl.discovery_documents import by_priority
from reconcile.embedded.kubectl.printing import CREATED, NAMES
from reconcile.embedded.protocol.jsonpath import BadPath, compile_path
from reconcile.embedded.refusals import bad_request
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.schema import ResourceSchema, compile_schema
from reconcile.embedded.schema.formats import unknown_formats
from reconcile.embedded.schema.wellformed import JSON_SCHEMA, decoded, malformed
from reconcile.embedded.served import Conversion, Converter, PathColumn, ScalePaths, ServedResource

# --- what decoding and the strategy set -------------------------------------------------------


def default_definition(definition: Object) -> None:
    """Fill in the names that follow from others, and the conversion strategy None.

    Schemas are kept as the Go type has them. Raises ApiFailure (400) for one that it could not have.
    """
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        fill(service, {"port": 443})
    for version in spec.get("versions") or ():
        fill(version, {"name": "", "served": False, "storage": False})
        schema = version.get("schema") or {}
        if schema.get("openAPIV3Schema") is not None:
            schema["openAPIV3Schema"] = _decoded(schema["openAPIV3Schema"])


def _decoded(openapi: Any) -> dict[str, Any]:
    for cause in malformed(openapi, "openAPIV3Schema"):
        if cause.reason == "FieldValueTypeInvalid":
            raise bad_request(f"json: cannot unmarshal {cause.field}: {cause.message}")
    return decoded(openapi)


def prepare_definition(definition: Object, old: Object | None) -> None:
    """Set the first status, and note the version that objects are stored in."""
    if old is None:
        definition["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": None,
        }
    status = definition.setdefault("status", {})
    versions = (definition.get("spec") or {}).get("versions") or ()
    storage = next((version["name"] for version in versions if version.get("storage")), None)
    stored = status.get("storedVersions") or []
    if storage is not None and storage not in stored:
        status["storedVersions"] = [*stored, storage]


def _warn_of_definition(definition: Object, old: Object | None) -> list[str]:
    """Warnings as of a real server, and about rules that this server cannot evaluate."""
    known = [] if old is None else [*_unknown_formats(old)]
    warnings = [f'unrecognized format "{name}"' for name in _unknown_formats(definition) if name not in known]
    for version in definition["spec"]["versions"]:
        schema = compile_schema(version["schema"]["openAPIV3Schema"])
        rules = schema.unevaluated_rules
        warnings += [f"{version['name']}: the embedded server does not evaluate {rule}" for rule in rules]
    return warnings


def _unknown_formats(definition: Object) -> Iterator[str]:
    schemas = [version["schema"]["openAPIV3Schema"] for version in definition["spec"]["versions"]]
    # One schema of all versions is that of the definition.
    for schema in schemas[:1] if all(other == schemas[0] for other in schemas) else schemas:
        yield from unknown_formats(schema)


# --- the kind ----------------------------------------------------------------------------------


KINDS: Final = (
    BuiltInKind(
        "apiextensions.k8s.io", "CustomResourceDefinition", short_names=("crd", "crds"),
        categories=("api-extensions",), namespaced=False, has_status=True, has_generation=True,
        answers_object_on_delete=True, unconditional_update=False,
        grafts={("spec", "versions", "", "schema", "openAPIV3Schema"): JSON_SCHEMA},
        defaults=default_definition,
        prepare=prepare_definition,
        checks=validate_definition,
        status_checks=validate_definition_status,
        names_missing_fields=True,
        status_keeps=("annotations", "finalizers", "labels", "ownerReferences"),
        warnings=_warn_of_definition,
        columns=(NAMES, CREATED),
    ),
)  # fmt: skip


# --- resources --------------------------------------------------------------------------------


def resources_of(definition: Mapping[str, Any], converter: Converter) -> tuple[ServedResource, ...]:
    """The served versions, the most stable and newest first."""
    spec = definition["spec"]
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: by_priority(version["name"]))
    storage = next(version for version in spec["versions"] if version.get("storage"))
    schemas = {
        f"{spec['group']}/{version['name']}": compile_schema(version["schema"]["openAPIV3Schema"])
        for version in spec["versions"]
    }
    metadata = definition.get("metadata") or {}
    made_from = f"{metadata.get('uid', '')}/{metadata.get('generation', 1)}"
    resources = tuple(
        evolve(_resource(spec, version, storage["name"], schemas), made_from=made_from) for version in served
    )
    if spec["conversion"]["strategy"] != "Webhook":
        return resources
    stored = evolve(_resource(spec, storage, storage["name"], schemas), made_from=made_from)
    conversion = _conversion(spec, converter, stored)
    return tuple(evolve(resource, conversion=conversion) for resource in resources)


def _conversion(spec: Mapping[str, Any], converter: Converter, storage: ServedResource) -> Conversion:
    kept = evolve(
        storage,
        storage_schema=storage.schema,
        storage_api_version=storage.api_version,
        made_from=f"{storage.made_from}/converted",  # its bodies lack the defaults of the storage version
    )
    return Conversion(converter, spec["conversion"].get("webhook") or {}, kept)


def _resource(
    spec: Mapping[str, Any], version: Mapping[str, Any], storage: str, schemas: Mapping[str, ResourceSchema]
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
        schema=schemas[f"{group}/{version['name']}"],
        storage_schema=None if version.get("storage") else schemas[f"{group}/{storage}"],
        versions=schemas,
        storage_api_version="" if version.get("storage") else f"{group}/{storage}",
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status="status" in subresources,
        scale=_scale(subresources.get("scale")),
        custom=True,
        columns=_columns(version),
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


def _columns(version: Mapping[str, Any]) -> tuple[PathColumn, ...]:
    """The printer columns; none, and so the usual ones, if a path is malformed."""
    columns = tuple(map(_column, version.get("additionalPrinterColumns") or ()))
    try:
        for column in columns:
            compile_path(column.json_path)
    except BadPath:
        return ()
    return columns


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
