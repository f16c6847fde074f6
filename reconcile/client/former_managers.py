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
