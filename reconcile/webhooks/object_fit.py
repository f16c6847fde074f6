"""Judges a stored object by the schema that its definition is about to get, as a server would.

A server with the new schema drops unknown fields, fills in defaults and validates. It lets an update pass
that leaves an invalid value as it is (ratcheting), but an object that does not fit cannot be restored from a
backup, and a field that is dropped is gone; so such an object counts here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import field, frozen

from reconcile.models.schema_changes import DefinitionChange

Schema: TypeAlias = Mapping[str, Any]
_INDEX = re.compile(r"\[\d+\]")
_REASONS: Mapping[str, str] = {
    "FieldValueRequired": "is required",
    "FieldValueTypeInvalid": "must be of another type",
    "FieldValueNotSupported": "is not one of the allowed values",
    "FieldValueDuplicate": "is there twice",
}


@frozen
class Misfit:
    """The first `field` of an object that does not fit, and why; of its `value` only what kind it is."""

    object: str
    field: str
    value: str
    problem: str

    def __str__(self) -> str:
        return f"{self.object}: {self.field or 'the object'} ({self.value}): {self.problem}"


@frozen(eq=False)
class ObjectFit:
    """Judges objects that are shown with the schema `old`; `changes` are those that they are read for."""

    old: Schema
    new: Schema
    changes: Sequence[DefinitionChange]
    _before: Any = field(init=False)
    _after: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        # The validation of the embedded server costs an import that a manager rarely needs.
        from reconcile.embedded.schema import compile_schema

        object.__setattr__(self, "_before", compile_schema(self.old))
        object.__setattr__(self, "_after", compile_schema(self.new))

    @property
    def unproven(self) -> Sequence[str]:
        """What of the new schema cannot be judged here, since a library is missing."""
        missing: Sequence[str] = self._after.unevaluated_rules
        if any(change.effect == "unknown" for change in self.changes):
            return missing
        return [one for one in missing if one not in self._before.unevaluated_rules]

    def misfit(self, obj: Mapping[str, Any]) -> Misfit | None:
        """What does not fit; None if the object stays as it is. An object that `old` refuses too fits."""
        from reconcile.embedded.schema.json_values import copied

        body = copied(dict(obj))
        self._after.prune(body)
        self._after.default(body)
        lost = next(_lost(obj, body, ""), None)
        fault = self._fault(obj, body) if lost is None else (lost, "")
        if fault is None:
            return None
        path, reason = fault
        metadata = obj.get("metadata") or {}
        key = "/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part)
        return Misfit(key, path, _kind_at(obj, path), self._problem(path, reason))

    def _fault(self, obj: Mapping[str, Any], body: dict[str, Any]) -> tuple[str, str] | None:
        causes = self._after.validate(body)
        if not causes:
            return None
        known = {(cause.field, cause.reason) for cause in self._before.validate(dict(obj))}
        new = [(cause.field, cause.reason) for cause in causes]
        return next((one for one in new if one not in known), None)

    def _problem(self, path: str, reason: str) -> str:
        """What changed there, or around it. Messages of servers are not shown: they repeat values."""
        place = _INDEX.sub("[]", path)
        around = [change for change in self.changes if _is_at(change.path, place)]
        if around:
            return max(around, key=lambda change: len(change.path)).what
        return _REASONS.get(reason, "does not fit the new schema")


def _is_at(path: str, place: str) -> bool:
    """Whether `place` is at the path of a change or below it; `*` stands for the names of a map."""
    pattern = re.escape(path).replace(r"\*", r"[^\[]+?")
    return not path or re.match(rf"{pattern}(?=$|[.\[])", place) is not None


def _lost(before: Any, after: Any, path: str) -> Iterator[str]:
    """The paths of the fields that only the first one has; a null that a default replaces is one too."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name, value in before.items():
            here = f"{path}.{name}" if path else str(name)
            if name not in after or (value is None and after[name] is not None):
                yield here
            else:
                yield from _lost(value, after[name], here)
    elif isinstance(before, list) and isinstance(after, list):
        for index, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from _lost(one, other, f"{path}[{index}]")


def _kind_at(value: Any, path: str) -> str:
    """What kind of value is at a path; names may have dots themselves."""
    if not path or path == "<nil>":
        return _kind(value)
    if isinstance(value, Mapping):
        for name in sorted(value, key=len, reverse=True):
            if path == name or path.startswith((f"{name}.", f"{name}[")):
                return _kind_at(value[name], path[len(name) :].removeprefix("."))
    found = re.match(r"\[(\d+)\]\.?", path)
    if found and isinstance(value, list) and int(found[1]) < len(value):
        return _kind_at(value[int(found[1])], path[found.end() :])
    return "absent"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return f"a string of {len(value)} characters"
        case int() | float():
            return "a number"
        case list():
            return f"a list of {len(value)}"
        case _:
            return f"an object of {len(value)} fields"
