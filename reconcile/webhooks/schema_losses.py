"""Compares two schemas of a version: which field only the first one has, so that a write would lose it."""

from collections.abc import Mapping
from typing import Any

from reconcile.models.definition import PRESERVE


def lost_field(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> str:
    """The path of the first field that objects of `before` may have and `after` prunes; empty if none."""
    if after.get(PRESERVE):
        return ""
    if before.get(PRESERVE):
        return f"{path}.*"
    its = after.get("properties") or {}
    for name, schema in (before.get("properties") or {}).items():
        here = f"{path}.{name}"
        if name in its:
            inner = lost_field(schema, its[name], here)
        elif isinstance(after.get("additionalProperties"), Mapping):
            inner = lost_field(schema, after["additionalProperties"], here)
        else:
            inner = "" if after.get("additionalProperties") is True else here
        if inner:
            return inner
    return _lost_below(before, after, path)


def _lost_below(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> str:
    """The same for the items of a list and the values of a map."""
    for word, mark in (("items", "[]"), ("additionalProperties", ".*")):
        mine, its = before.get(word), after.get(word)
        if isinstance(mine, Mapping) and isinstance(its, Mapping):
            if inner := lost_field(mine, its, f"{path}{mark}"):
                return inner
        elif isinstance(mine, Mapping) and word == "additionalProperties" and its is not True:
            return f"{path}{mark}"
    return ""
