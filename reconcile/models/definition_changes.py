"""Compares a served CustomResourceDefinition with a new one: what is added, and what objects may not fit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from reconcile.models.schema_changes import DefinitionChange, Proof, schema_changes

__all__ = ["DefinitionChange", "ReadingPlan", "definition_changes", "only_narrows", "readings", "schema_of"]

Definition: TypeAlias = Mapping[str, Any]
Version: TypeAlias = Mapping[str, Any]
_NAMES = ("singular", "listKind", "shortNames", "categories")


@frozen
class ReadingPlan:
    """Objects are to be read in the served version `read_as`, and must fit the new schema of `version`."""

    version: str
    read_as: str
    changes: Sequence[DefinitionChange]


def definition_changes(old: Definition, new: Definition) -> Sequence[DefinitionChange]:
    """The differences of two definitions of one kind; `old` with the `status` that its server gives.

    What servers fill in where a definition says nothing makes no difference.
    """
    return [
        *_identity(old["spec"], new["spec"]),
        *_names(old["spec"]["names"], new["spec"]["names"]),
        *_conversion(old, new),
        *_versions(old, new),
    ]


def only_narrows(old: Definition, new: Definition) -> bool:
    """Whether `new` takes from `old` and adds nothing: then code that is written for `new` works with both.

    What it stores is accepted and kept by `old` as well.
    """
    return any(change.effect != "additive" for change in definition_changes(old, new)) and all(
        change.version and change.effect == "additive" for change in definition_changes(new, old)
    )


def readings(old: Definition, new: Definition, changes: Sequence[DefinitionChange]) -> Sequence[ReadingPlan]:
    """What must be read to decide about `changes`: the objects once for each version that has some."""
    stored = _stored(old)
    served = [name for name, version in _by_name(old).items() if version["served"]]
    plans = []
    for name in _by_name(new):
        if _converts(new) and name != stored:
            continue  # the functions of the new release make these objects, and keep what has no field
        concerned = [change for change in changes if change.reads and change.version == name]
        first = stored if _shows_stored(name, old, new) else name
        read_as = next((one for one in (first, stored, *served) if one in served), "")
        if concerned and read_as:
            plans.append(ReadingPlan(name, read_as, concerned))
    return plans


def schema_of(definition: Definition, version: str) -> Mapping[str, Any]:
    """The schema of a version; empty if the definition has none for it."""
    return _schema(_by_name(definition)[version])


def _shows_stored(name: str, old: Definition, new: Definition) -> bool:
    """Whether a version begins to show objects as they were stored in another one, which nothing converts.

    In the version itself, an older definition may hide fields that are stored.
    """
    moved = name == _stored(new) != _stored(old)
    return not _converts(new) and (moved or name not in _by_name(old))


def _identity(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[DefinitionChange]:
    pairs = (
        ("group", old["group"], new["group"]),
        ("scope", old["scope"], new["scope"]),
        ("names.kind", old["names"]["kind"], new["names"]["kind"]),
        ("names.plural", old["names"]["plural"], new["names"]["plural"]),
    )
    for path, before, after in pairs:
        if before != after:
            yield _narrowing(path, f"is {after} and was {before}, which no server changes", "impossible")
    if old.get("preserveUnknownFields") and not new.get("preserveUnknownFields"):
        for version in new["versions"]:
            what = "fields that the definition does not name are dropped now, in the whole object"
            yield DefinitionChange(version["name"], "", what, "narrowing", "objects")


def _names(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[DefinitionChange]:
    for word in _NAMES:
        before, after = _list(old, word), _list(new, word)
        if gone := [name for name in before if name not in after]:
            yield _narrowing(f"names.{word}", f"has no {', '.join(gone)} any more")
        if added := [name for name in after if name not in before]:
            yield _additive(f"names.{word}", f"has {', '.join(added)}")


def _list(names: Mapping[str, Any], word: str) -> Sequence[str]:
    """The names as a server completes them."""
    if word == "singular":
        return [names.get(word) or names["kind"].lower()]
    if word == "listKind":
        return [names.get(word) or f"{names['kind']}List"]
    return names.get(word) or ()


# --- conversion -----------------------------------------------------------------------------------------


def _conversion(old: Definition, new: Definition) -> Iterator[DefinitionChange]:
    before, after = _converts(old), _converts(new)
    if after and not before:
        yield _additive("conversion", "a webhook converts between the versions now")
    elif before and not after:
        kept = set(_stored_versions(old)) | {name for name, one in _by_name(new).items() if one["served"]}
        alone = kept == {_stored(new)}
        what = "is gone" + ("" if alone else f", and {', '.join(sorted(kept))} would be shown unconverted")
        yield _narrowing("conversion", what, "none" if alone else "impossible")
    elif before and _place_of(old) != _place_of(new):
        yield _additive("conversion", "another webhook converts between the versions")


def _converts(definition: Definition) -> bool:
    return bool((definition["spec"].get("conversion") or {}).get("strategy") == "Webhook")


def _place_of(definition: Definition) -> Mapping[str, Any]:
    """Where the webhook is; the certificates that it is trusted by rotate."""
    config = definition["spec"]["conversion"]["webhook"].get("clientConfig") or {}
    service = {"port": 443, **config["service"]} if "service" in config else None
    return {"service": service, "url": config.get("url")}


# --- versions -------------------------------------------------------------------------------------------


def _versions(old: Definition, new: Definition) -> Iterator[DefinitionChange]:
    before, after = _by_name(old), _by_name(new)
    for name, version in before.items():
        if name not in after:
            yield _without(name, version, old)
    for name, version in after.items():
        if name in before:
            yield from _version(name, before[name], version)
        else:
            yield from _new_version(name, version, old, new)
    if (stored := _stored(old)) != (moved := _stored(new)):
        what = f"stores objects now, in place of {stored}; those that are stored are to be migrated"
        yield DefinitionChange(moved, "", what, "additive")
        if stored in after and moved in before and not _converts(new):
            yield from _shown_as(moved, old, new)


def _without(name: str, version: Version, old: Definition) -> DefinitionChange:
    if name in _stored_versions(old):
        what = "is gone, and status.storedVersions still has it: migrate the stored objects first"
        return DefinitionChange(name, "", what, "narrowing", "impossible")
    if version["served"]:
        return DefinitionChange(name, "", "is gone, which its clients get 404 for", "narrowing")
    return DefinitionChange(name, "", "is gone, and was not served", "additive")


def _new_version(name: str, version: Version, old: Definition, new: Definition) -> Iterator[DefinitionChange]:
    yield DefinitionChange(
        name, "", "is a new version" + ("" if version["served"] else ", not served"), "additive"
    )
    if not _converts(new):
        yield from _shown_as(name, old, new)


def _shown_as(name: str, old: Definition, new: Definition) -> Iterator[DefinitionChange]:
    """What stored objects lose that are shown in another version as they are: the first write stores that."""
    stored = _by_name(old)[_stored(old)]
    changes = schema_changes(_schema(stored), _schema(_by_name(new)[name]), name)
    yield from (change for change in changes if change.effect != "additive")


def _version(name: str, old: Version, new: Version) -> Iterator[DefinitionChange]:
    if old["served"] and not new["served"]:
        yield DefinitionChange(name, "", "is not served any more, which its clients get 404 for", "narrowing")
    elif new["served"] and not old["served"]:
        yield DefinitionChange(name, "", "is served again", "additive")
    if new.get("deprecated") and not old.get("deprecated"):
        yield DefinitionChange(name, "", "is deprecated now", "additive")
    yield from _subresources(name, old.get("subresources") or {}, new.get("subresources") or {})
    yield from _fields_of_lists(name, old, new)
    yield from schema_changes(_schema(old), _schema(new), name)


def _subresources(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[DefinitionChange]:
    for word in ("status", "scale"):
        path = f"subresources.{word}"
        if word in old and word not in new:
            yield DefinitionChange(name, path, "is gone, which its clients get 404 for", "narrowing")
        elif word in new and word not in old:
            yield DefinitionChange(name, path, "is new", "additive")
        elif old.get(word) != new.get(word):
            yield DefinitionChange(name, path, "reads other fields", "narrowing")


def _fields_of_lists(name: str, old: Version, new: Version) -> Iterator[DefinitionChange]:
    before, after = (one.get("additionalPrinterColumns") or () for one in (old, new))
    if before != after:
        yield DefinitionChange(name, "additionalPrinterColumns", "kubectl prints other columns", "additive")
    before, after = ({field["jsonPath"] for field in one.get("selectableFields") or ()} for one in (old, new))
    if gone := sorted(before - after):
        what = f"objects cannot be selected by {', '.join(gone)} any more"
        yield DefinitionChange(name, "selectableFields", what, "narrowing")
    if added := sorted(after - before):
        yield DefinitionChange(name, "selectableFields", f"has {', '.join(added)}", "additive")


# --- definitions ----------------------------------------------------------------------------------------


def _by_name(definition: Definition) -> Mapping[str, Version]:
    return {version["name"]: version for version in definition["spec"]["versions"]}


def _stored(definition: Definition) -> str:
    return next(name for name, version in _by_name(definition).items() if version["storage"])


def _stored_versions(definition: Definition) -> Sequence[str]:
    return (definition.get("status") or {}).get("storedVersions") or (_stored(definition),)


def _schema(version: Version) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _narrowing(path: str, what: str, proof: Proof = "none") -> DefinitionChange:
    return DefinitionChange("", path, what, "narrowing", proof)


def _additive(path: str, what: str) -> DefinitionChange:
    return DefinitionChange("", path, what, "additive")
