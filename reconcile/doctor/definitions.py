"""Definitions: whether the cluster serves what the classes of the code have, and what is stored of old."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from reconcile.doctor.declared import Declared
from reconcile.doctor.findings import Finding
from reconcile.doctor.objects import Definition, Version
from reconcile.models import Object, definition_of, kind_of
from reconcile.webhooks.schema_losses import lost_field

CHECK: Final = "definitions"
STORED: Final = "stored-versions"


def check_definitions(declared: Declared, installed: Mapping[str, Definition | None]) -> Iterable[Finding]:
    """What a class has and the served definition lacks: the server would refuse or drop it."""
    apply = f"compare with `reconcile crds {declared.module}`, then apply what it prints"
    for versions in declared.families:
        name = kind_of(versions[0]).resource.name
        subject, definition = f"CustomResourceDefinition {name}", installed.get(name)
        if definition is None:
            what = "does not exist, so no object of the kind can"
            yield Finding(CHECK, "error", subject, what, apply)
            continue
        for what in [*_state(definition), *_lacking(versions, definition)]:
            yield Finding(CHECK, "error", subject, what, apply)


def _state(definition: Definition) -> Iterable[str]:
    if definition.metadata.deletion_timestamp is not None:
        yield "is being deleted, with all objects of the kind"
    for condition in definition.status.conditions or ():
        if condition.type in ("Established", "NamesAccepted") and condition.status == "False":
            yield f"is not {condition.type}: {condition.message}"


def _lacking(versions: Sequence[type[Object]], definition: Definition) -> Iterable[str]:
    served = {version.name: version for version in definition.spec.versions}
    for model in versions:
        kind, name = kind_of(model), kind_of(model).resource.version
        there = served.get(name)
        if there is None:
            yield f"lacks the version {name}, which the code has"
        elif not there.served:
            yield f"does not serve the version {name}, which the code has"
        elif not kind.as_installed:
            yield from _lacking_version(model, there)


def _lacking_version(model: type[Object], there: Version) -> Iterable[str]:
    (wanted,) = definition_of(model)["spec"]["versions"]
    lost = lost_field(wanted["schema"]["openAPIV3Schema"], there.schema.open_apiv3_schema)
    if lost:
        yield f"is older than the code: {there.name} lacks {lost}, which the server drops when it is written"
    for part in wanted.get("subresources", {}):
        if there.subresources is None or getattr(there.subresources, part) is None:
            yield f"is older than the code: {there.name} lacks the subresource {part}"


def check_stored(declared: Declared, installed: Mapping[str, Definition | None]) -> Iterable[Finding]:
    """Versions in which objects may still be stored besides the storage version."""
    known = {
        kind_of(versions[0]).resource.name: {kind_of(one).resource.version for one in versions}
        for versions in declared.families
    }
    for name, definition in installed.items():
        if definition is None:
            continue
        for version in _stored_of_old(definition):
            yield _of_old(name, definition, version, known.get(name))


def _stored_of_old(definition: Definition) -> Sequence[str]:
    stored = {version.name for version in definition.spec.versions if version.storage}
    return [name for name in definition.status.stored_versions or () if name not in stored]


def _of_old(name: str, definition: Definition, version: str, known: set[str] | None) -> Finding:
    subject = f"CustomResourceDefinition {name}"
    served = {one.name for one in definition.spec.versions if one.served}
    conversion = definition.spec.conversion
    converts = conversion is not None and conversion.strategy == "Webhook"
    if converts and known is not None and version not in known:
        what = f"may have objects stored as {version}, which the code cannot convert any more"
        return Finding(
            STORED, "error", subject, what, f"bring the class of {version} back until all are rewritten"
        )
    state = "" if version in served else ", which it does not serve any more"
    what = f"may have objects stored as {version}{state}; dropping that version would make them unreadable"
    step = 'run the operator with Manager(definitions="apply"), or migrate them (StorageVersionMigration)'
    return Finding(STORED, "warning", subject, what, step)
