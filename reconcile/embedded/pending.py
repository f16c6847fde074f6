"""Stands in for rooms that are not built yet: what they alone can do is a clear error until then."""

from importlib import import_module
from types import ModuleType
from typing import Any

from reconcile.embedded.status import Failure


def _room(name: str) -> ModuleType | None:
    try:
        return import_module(f"reconcile.embedded.{name}")
    except ModuleNotFoundError:
        return None


_PATCHES, _APPLY, _SCHEMAS = _room("patches"), _room("apply"), _room("builtin_schemas")


def _unsupported(what: str) -> Failure:
    return Failure(501, "NotImplemented", f"{what} is not supported by the embedded server yet")


def json_patch(doc: Any, ops: Any) -> Any:
    if _PATCHES is None:
        raise _unsupported("JSON patch")
    return _PATCHES.json_patch(doc, ops)


def merge_patch(doc: Any, patch: Any) -> Any:
    if _PATCHES is not None:
        return _PATCHES.merge_patch(doc, patch)
    if not isinstance(patch, dict):
        return patch
    made = dict(doc) if isinstance(doc, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merge_patch(made.get(name), value)
    return made


def strategic_merge(doc: Any, patch: Any, schema: Any) -> Any:
    if _PATCHES is None:
        raise _unsupported("strategic merge patch")
    return _PATCHES.strategic_merge(doc, patch, schema)


def apply(live: Any, intent: Any, **options: Any) -> dict[str, Any]:
    if _APPLY is None:
        raise _unsupported("server-side apply")
    made: dict[str, Any] = _APPLY.apply(live, intent, **options)
    return made


def track_update(old: Any, new: dict[str, Any], **options: Any) -> None:
    if _APPLY is not None:
        _APPLY.track_update(old, new, **options)


def schema_for(group: str, version: str, kind: str) -> dict[str, Any]:
    if _SCHEMAS is None:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found: dict[str, Any] = _SCHEMAS.schema_for(group, version, kind)
    return found
