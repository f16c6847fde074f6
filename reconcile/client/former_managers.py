"""Moves fields applied by a former field manager to the present one, in the managedFields of an object.

Fields that only the former one owns would stay for ever: an apply under the new name cannot drop them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from informers import OwnedByOther

Entry = Mapping[str, Any]


def renamed(entries: Sequence[Entry], former: Collection[str], manager: str) -> Sequence[Entry]:
    """The managedFields with `manager` in place of `former`; entries of the same kind are joined."""
    result: dict[tuple[Any, ...], Entry] = {}
    for entry in sorted(entries, key=lambda entry: entry.get("manager") in former):  # the present one first
        name = manager if entry.get("manager") in former else entry.get("manager")
        # An applier has one entry for each subresource, whichever version it speaks; an updater one for each.
        version = entry.get("apiVersion") if entry.get("operation") != "Apply" else ""
        place = (name, entry.get("operation"), entry.get("subresource", ""), version)
        there = result.get(place)
        fields = entry.get("fieldsV1") or {}
        if there is not None:
            entry, fields = there, joined(there.get("fieldsV1") or {}, fields)
        result[place] = {**entry, "manager": name, "fieldsV1": fields}
    return list(result.values())


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """The union of two sets of fields, in their form FieldsV1."""
    both = {**one, **other}
    return {
        name: joined(one[name], other[name]) if name in one and name in other else fields
        for name, fields in both.items()
    }


def has_applied(entries: Sequence[Entry], managers: Collection[str], subresource: str) -> bool:
    return any(
        entry.get("operation") == "Apply"
        and entry.get("manager") in managers
        and entry.get("subresource", "") == subresource
        for entry in entries
    )


def is_in_the_way(error: OwnedByOther, managers: Collection[str]) -> bool:
    return any(f'"{manager}"' in cause.message for cause in error.causes for manager in managers)


def absorbed(
    entries: Sequence[Entry], updaters: Collection[str], manager: str, version: str
) -> Sequence[Entry] | None:
    """The managedFields in which `manager` has applied what `updaters` wrote; None if that is nothing.

    client-go does the same when a client goes over to apply (`csaupgrade`). What `updaters` wrote in another
    version, in a subresource, in the status or to the finalizers stays theirs: an apply would drop it.
    """
    fields: Mapping[str, Any] = {}
    others: list[Entry] = []
    for entry in entries:
        updated = (
            entry.get("manager") in updaters
            and entry.get("operation") == "Update"
            and not entry.get("subresource")
            and entry.get("apiVersion") == version
        )
        taken, kept = _divided(entry.get("fieldsV1") or {}) if updated else ({}, None)
        fields = joined(fields, taken)
        if kept is None or kept:
            others.append(entry if kept is None else {**entry, "fieldsV1": kept})
    if not fields:
        return None
    ours = {"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1"}
    return [*others, {**ours, "fieldsV1": fields}]


def _divided(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What an applier takes over of a set of fields, and what it leaves."""
    metadata = fields.get("f:metadata") or {}
    taken = {name: value for name, value in fields.items() if name not in ("f:status", "f:metadata")}
    kept = {"f:status": fields["f:status"]} if "f:status" in fields else {}
    if rest := {name: value for name, value in metadata.items() if name != "f:finalizers"}:
        taken["f:metadata"] = rest
    if "f:finalizers" in metadata:
        kept["f:metadata"] = {"f:finalizers": metadata["f:finalizers"]}
    return taken, kept
