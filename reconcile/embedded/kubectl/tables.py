"""Tables as `kubectl get` shows them. As in the real server, dates become ages when a table is made."""

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from attrs import define, field, frozen

from informers.clock import Clock
from reconcile.embedded.kubectl.ages import INVALID, age
from reconcile.embedded.kubectl.printing import Cell, pick
from reconcile.embedded.protocol.jsonpath import compile_path
from reconcile.embedded.schema.json_values import is_number
from reconcile.embedded.served import CellColumn, PathColumn, ServedResource

Document = dict[str, Any]

_AGE = PathColumn("Age", "date", ".metadata.creationTimestamp", "When the object was made.")


@frozen
class _Columns:
    definitions: tuple[Document, ...]
    cells: tuple[Cell, ...]


@define
class Tables:
    _clock: Clock
    _columns: WeakKeyDictionary[ServedResource, _Columns] = field(factory=WeakKeyDictionary)

    def rows(self, resource: ServedResource, objects: Iterable[Mapping[str, Any]]) -> Document:
        """A Table of `objects`; the caller fills in its metadata and the rows' objects.

        Raises jsonpath.BadPath if the path of a column is malformed.
        """
        columns = self._columns_of(resource)
        now = self._clock.now()
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {},
            "columnDefinitions": list(columns.definitions),
            "rows": [
                {"cells": [cell(obj, now) for cell in columns.cells], "object": None} for obj in objects
            ],
        }

    def _columns_of(self, resource: ServedResource) -> _Columns:
        known = self._columns.get(resource)
        if known is None:
            known = self._columns[resource] = _columns(resource)
        return known


def _columns(resource: ServedResource) -> _Columns:
    if resource.cell_columns:
        return _Columns(
            tuple(map(_cell_definition, resource.cell_columns)),
            tuple(column.cell for column in resource.cell_columns),
        )
    columns = resource.columns or (_AGE,)
    name = PathColumn(
        "Name", "string", ".metadata.name", "Name must be unique within a namespace.", format="name"
    )
    return _Columns(
        tuple(map(_definition, (name, *columns))),
        (lambda obj, _now: pick(obj, "metadata", "name"), *map(_cell, columns)),
    )


def _cell_definition(column: CellColumn) -> Document:
    form = "name" if column.name == "Name" else ""
    return _definition(PathColumn(column.name, column.type, "", "", int(column.wide), form))


def _definition(column: PathColumn) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _cell(column: PathColumn) -> Cell:
    path = compile_path(column.json_path)
    show = _SHOW.get(column.type)

    def cell(obj: Mapping[str, Any], now: datetime.datetime) -> Any:
        value = path.first(obj)
        return None if value is None or show is None else show(value, now)

    return cell


_SHOW: Mapping[str, Callable[[Any, datetime.datetime], Any]] = {
    "string": lambda value, _: value if isinstance(value, str) else msgspec.json.encode(value).decode(),
    "integer": lambda value, _: int(value) if is_number(value) else None,
    "number": lambda value, _: value if is_number(value) else None,
    "boolean": lambda value, _: value if isinstance(value, bool) else None,
    "date": lambda value, now: age(value, now) if isinstance(value, str) else INVALID,
}
