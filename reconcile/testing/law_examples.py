"""Objects on which the laws of a kind are tried: JSON that its schema admits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import frozen

from reconcile.embedded.schema import ResourceSchema, compile_schema
from reconcile.embedded.schema.json_values import copied
from reconcile.models import Object, ObjectMeta, definition_of, encode, kind_of
from reconcile.models.fields import fields_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

UNKNOWN_FIELD: Final = "xUnknown"
_NAMED: Final = ObjectMeta("a", "default")
_METADATA: Final[Mapping[str, Any]] = {
    "uid": "6f1d2c1e-0000-4000-8000-000000000001",
    "labels": {"team": "blue"},
    "annotations": {"note": "kept"},
    "finalizers": ["example.com/kept"],
}


@frozen
class Example:
    """An object of one version: as a client sends it, and as the server shows it to a webhook."""

    sent: dict[str, Any]
    """Without the fields that are as the class has them by default."""
    shown: dict[str, Any]
    """With the defaults of the schema."""


@frozen(eq=False)
class ExampleKind:
    """Makes and judges the objects of one class. `strategy` replaces what its types allow."""

    model: type[Object]
    openapi: Mapping[str, Any]
    schema: ResourceSchema
    strategy: "SearchStrategy[Any] | None" = None

    @classmethod
    def of(cls, model: type[Object], strategy: "SearchStrategy[Any] | None" = None) -> "ExampleKind":
        """Raises TypeError for a field whose type has no schema."""
        (version,) = definition_of(model)["spec"]["versions"]
        openapi = version["schema"]["openAPIV3Schema"]
        return cls(model, openapi, compile_schema(openapi), strategy)

    def written(self) -> "SearchStrategy[Example]":
        """Valid objects as clients write them, without a status.

        Raises TypeError for a field whose type has no strategy.
        """
        return self._strategy().map(lambda obj: self._example(obj, with_status=False)).filter(self._admits)

    def stored(self) -> "SearchStrategy[Example]":
        """Valid objects with a status, some with fields that the class does not know. Raises TypeError."""
        from hypothesis import strategies as st

        def example(obj: Object, has_more: bool) -> Example:
            made = self._example(obj, with_status=True)
            return self._with_unknown_fields(made) if has_more else made

        return st.builds(example, self._strategy(), st.booleans()).filter(self._admits)

    def _strategy(self) -> "SearchStrategy[Any]":
        from reconcile.testing.strategies import values

        if self.strategy is not None:
            return self.strategy
        # Drawn names would make it several times slower to find the smallest object.
        return values(self.model).map(lambda obj: obj.replace(metadata=_NAMED))

    def _admits(self, example: Example) -> bool:
        return not self.faults(example.shown)

    def faults(self, obj: Mapping[str, Any]) -> list[str]:
        """Why the schema does not admit an object; empty if it does."""
        body = copied(dict(obj))
        self.schema.prune(body)
        self.schema.default(body)
        return [f"{cause.field}: {cause.message}" for cause in self.schema.validate(body)]

    def _example(self, obj: Object, *, with_status: bool) -> Example:
        resource = kind_of(self.model).resource
        body = encode(obj)
        if not with_status:
            body.pop("status", None)
        place = {} if resource.namespaced else {"namespace": ""}
        metadata = {**_METADATA, **body.get("metadata", {}), **place}
        metadata = {name: value for name, value in metadata.items() if value != ""}
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
        shown: dict[str, Any] = copied(whole)
        self.schema.default(shown)
        return Example(_without_defaults(obj, whole), shown)

    def _with_unknown_fields(self, example: Example) -> Example:
        shown = _with_unknown_fields(example.shown, self.openapi)
        return Example(example.sent, shown | {"metadata": example.shown["metadata"]})


def _without_defaults(value: Any, body: Any) -> Any:
    """The JSON of a value without the fields that are as their class has them by default."""
    if isinstance(body, list):
        return list(map(_without_defaults, value, body))
    if not (isinstance(body, dict) and attrs.has(type(value))):
        return body
    made = dict(body)
    for field in fields_of(type(value)):
        if field.wire not in body or field.type is ObjectMeta:
            continue
        one = getattr(value, field.name)
        if not field.needed and one == field.default:
            del made[field.wire]
        else:
            made[field.wire] = _without_defaults(one, body[field.wire])
    return made


def _with_unknown_fields(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value with a field more in each object whose fields the schema lists."""
    if isinstance(value, dict):
        known = schema.get("properties") or {}
        inner = schema.get("additionalProperties")
        rest = inner if isinstance(inner, Mapping) else {}
        made = {name: _with_unknown_fields(one, known.get(name, rest)) for name, one in value.items()}
        return {**made, UNKNOWN_FIELD: {"is": ["kept"]}} if known else made
    if isinstance(value, list):
        return [_with_unknown_fields(one, schema.get("items") or {}) for one in value]
    return value
