"""Converts the JSON of an object from one version of its kind to another.

Metadata is never touched, apart from one annotation that keeps what the target version has no field for.
"""

from collections.abc import Mapping, Sequence
from operator import is_not
from typing import Any, Final

import msgspec
from attrs import evolve, frozen

from reconcile.client.diff import same
from reconcile.models import DecodeError, Object, ObjectMeta, kind_of
from reconcile.models.codec import decode_parsed, encode_body
from reconcile.models.conversions import ConversionError, converted
from reconcile.models.writing import SharedJson
from reconcile.webhooks.kept_fields import lost, restored

MAX_ANNOTATION: Final = 128 * 1024
"""Characters; an object may have 256 KiB of annotations."""


_NESTED: Final = frozenset({dict, list})


@frozen
class _Truth:
    """An object in one version, with what was kept for it; `body` is its JSON without metadata."""

    obj: Object
    body: dict[str, Any]


class VersionedKind:
    """The versions of one kind as classes, between which objects are converted."""

    def __init__(self, versions: Sequence[type[Object]]) -> None:
        self._models = {kind_of(model).resource.api_version: model for model in versions}
        self.resource = kind_of(versions[0]).resource
        self.annotation = f"{self.resource.group}/kept-fields"
        """Its value is JSON: what was lost, by the version that has it."""

    def convert(self, raw: Mapping[str, Any], api_version: str) -> dict[str, Any]:
        """The object in `api_version`; `raw` is not changed. Raises ConversionError."""
        try:
            return self._convert(raw, api_version)
        except ConversionError:
            raise
        except (ValueError, TypeError) as error:  # of a value that cannot be written: a time without a zone
            raise ConversionError(f"a version of it cannot be written: {type(error).__name__}") from error

    def _convert(self, raw: Mapping[str, Any], api_version: str) -> dict[str, Any]:
        source, target = self._model(raw.get("apiVersion")), self._model(api_version)
        if source is target:
            return dict(raw)
        shared = SharedJson()  # functions of authors pass most parts on as they are
        truths = self._truths(source, raw, shared)
        # The version that knows most of the object; `self._models` begins with the newest.
        best = (
            target if target in truths else next(model for model in self._models.values() if model in truths)
        )
        there = converted(truths[best].obj, target)
        body = truths[target].body if target in truths else encode_body(there, shared)
        kept = {
            kind_of(model).resource.version: difference
            for model, truth in truths.items()
            if model is not target
            and (difference := lost(encode_body(converted(there, model), shared), truth.body)) is not None
        }
        metadata = self._with_annotation(raw, kept)
        return {"apiVersion": api_version, "kind": raw.get("kind"), "metadata": metadata, **body}

    def _truths(
        self, source: type[Object], raw: Mapping[str, Any], shared: SharedJson
    ) -> dict[type[Object], "_Truth"]:
        """The object as it is in its version, and in each version for which fields were kept."""
        obj = _decoded(source, raw)
        truths = {source: _Truth(obj, _with_unknown(encode_body(obj, shared), _body(raw)))}
        kept = self._kept_in(raw)
        for model in self._models.values():
            if model is not source and (difference := kept.get(kind_of(model).resource.version)) is not None:
                truths[model] = _put_back(converted(obj, model), difference, shared)
        return truths

    def _model(self, api_version: Any) -> type[Object]:
        model = self._models.get(api_version) if isinstance(api_version, str) else None
        if model is None:
            known = ", ".join(sorted(self._models))
            raise ConversionError(f"{self.resource.kind} has no version {api_version!r} here; it has {known}")
        return model

    def _kept_in(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The differences in the annotation, by version; any client may have written it."""
        text = ((raw.get("metadata") or {}).get("annotations") or {}).get(self.annotation)
        if not isinstance(text, str):
            return {}
        try:
            kept = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def _with_annotation(self, raw: Mapping[str, Any], kept: Mapping[str, Any]) -> Any:
        metadata = raw.get("metadata") or {}
        annotations = {
            name: value
            for name, value in (metadata.get("annotations") or {}).items()
            if name != self.annotation
        }
        if kept:
            text = msgspec.json.encode(kept, order="sorted").decode()
            if len(text) > MAX_ANNOTATION:
                raise ConversionError(
                    f"{len(text):,} characters have no field in the other version, more than the "
                    f"{MAX_ANNOTATION:,} that an annotation may keep"
                )
            annotations[self.annotation] = text
        if same(annotations, metadata.get("annotations") or {}):
            return metadata
        rest = {name: value for name, value in metadata.items() if name != "annotations"}
        return {**rest, "annotations": annotations} if annotations else rest


def _decoded(model: type[Object], raw: Mapping[str, Any]) -> Object:
    try:
        return decode_parsed(model, raw)
    except DecodeError as error:
        raise ConversionError(f"the object is not a valid {kind_of(model).resource}: {error}") from None


def _put_back(obj: Object, difference: Any, shared: SharedJson) -> _Truth:
    """The object with what was kept for its version; without it, if the whole would be invalid."""
    body = encode_body(obj, shared)
    whole = restored(body, difference)
    try:
        restored_obj = _with(decode_parsed(type(obj), whole), obj.metadata)
    except DecodeError:
        return _Truth(obj, body)
    return _Truth(restored_obj, dict(whole))


def _with(obj: Any, metadata: ObjectMeta) -> Object:
    changed: Object = evolve(obj, metadata=metadata)
    return changed


def _body(encoded: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in encoded.items() if name not in ("apiVersion", "kind", "metadata")}


def _with_unknown(view: Any, raw: Any) -> Any:
    """The JSON that a class writes, with the fields of `raw` that it does not know; or `view` itself."""
    if type(view) is dict and (type(raw) is dict or isinstance(raw, Mapping)):
        further: dict[str, Any] = {}
        for name, value in raw.items():
            if name not in view:
                further[name] = value
            elif type(known := view[name]) in _NESTED and (whole := _with_unknown(known, value)) is not known:
                further[name] = whole
        return {**view, **further} if further else view
    if type(view) is list and isinstance(raw, list) and len(view) == len(raw):
        items = list(map(_with_unknown, view, raw))
        return items if any(map(is_not, items, view)) else view
    return view
