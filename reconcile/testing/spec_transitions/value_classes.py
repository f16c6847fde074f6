"""The classes of the values of a field: values of one class should make no difference, of two they may.

As Acto derives them from a definition (Gu et al., "Acto: Automatic End-to-End Testing for Operation
Correctness of Cloud System Management", SOSP 2023).
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import frozen

from reconcile.testing.spec_transitions.sample_texts import (
    admits_text,
    long_text,
    texts_of,
    unmatched_text,
)
from reconcile.testing.spec_transitions.sample_values import (
    JsonSchema,
    full_of,
    items_of,
    key_of,
    least_of,
    numbers_of,
    varied,
)

MOST_CHOICES: Final = 8
MOST_ITEMS: Final = 6
"""Items of the longest list that is made: each may be a child."""


class Absent(enum.Enum):
    """The type of ABSENT."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""No value: the field is not there."""


@frozen
class ValueClass:
    """One class of values of a field, by the `value` that stands for it: JSON, or ABSENT."""

    name: str
    value: Any

    @property
    def identity(self) -> bytes:
        """Equal for equal values: in Python `1` and `True` are equal, in JSON they are not."""
        return identity_of(self.value)


def identity_of(value: Any) -> bytes:
    """Equal for values that are equal in JSON, or both absent."""
    return b"" if value is ABSENT else msgspec.json.encode(value, order="deterministic")


def classes_of(schema: JsonSchema, *, required: bool, sample: Any = ABSENT) -> Sequence[ValueClass]:
    """The classes of a field, each once; the first is the `sample` if there is one.

    They are what the keywords of the schema admit: rules in CEL and webhooks may refuse some.
    """
    found: dict[bytes, ValueClass] = {}
    for one in _classes(schema, required, sample):
        found.setdefault(one.identity, one)
    return list(found.values())


def refused_of(schema: JsonSchema, *, required: bool) -> Sequence[ValueClass]:
    """Values of a field that the keywords of its schema refuse."""
    found: dict[bytes, ValueClass] = {}
    for one in _refused(schema, required):
        found.setdefault(one.identity, one)
    return list(found.values())


def _classes(schema: JsonSchema, required: bool, sample: Any) -> Iterator[ValueClass]:
    if sample is not ABSENT:
        yield ValueClass("as in the sample", sample)
    if not required:
        yield ValueClass("absent", ABSENT)
    if schema.get("nullable"):
        yield ValueClass("null", None)
    if "default" in schema:
        yield ValueClass("the default", schema["default"])
    if choices := schema.get("enum"):
        yield from (ValueClass("another choice", choice) for choice in choices[:MOST_CHOICES])
        return
    if schema.get("x-kubernetes-int-or-string"):
        yield from _of_int_or_string(schema)
        return
    match schema.get("type"):
        case "boolean":
            yield ValueClass("false", False)
            yield ValueClass("true", True)
        case "integer" | "number":
            yield from (ValueClass(*pair) for pair in numbers_of(schema))
        case "string":
            yield from _of_text(schema)
        case "array":
            yield from _of_list(schema, sample)
        case "object":
            yield from _of_object(schema, sample)


def _of_int_or_string(schema: JsonSchema) -> Iterator[ValueClass]:
    yield ValueClass("zero", 0)
    yield ValueClass("a number", 2)
    texts = texts_of(schema) if schema.get("pattern") else ("50%", "2")
    yield from (ValueClass("a text", text) for text in texts)


def _of_text(schema: JsonSchema) -> Iterator[ValueClass]:
    if admits_text(schema, ""):
        yield ValueClass("empty", "")
    yield from (ValueClass("a text", text) for text in texts_of(schema))
    text = long_text(schema)
    if text is not None:
        yield ValueClass("long", text)


def _of_list(schema: JsonSchema, sample: Any) -> Iterator[ValueClass]:
    least, most = schema.get("minItems") or 0, schema.get("maxItems")
    longest = MOST_ITEMS if most is None else min(most, MOST_ITEMS)
    item = schema.get("items") or {}
    if isinstance(sample, Sequence) and sample:
        if len(sample) > max(least, 1):
            yield ValueClass("without the first", sample[1:])
        if len(sample) < longest:
            more = [varied(sample[-1], item, number) for number in range(1, longest - len(sample) + 1)]
            yield ValueClass("one more", [*sample, more[0]])
            yield ValueClass("many", [*sample, *more])
        if least == 0:
            yield ValueClass("empty", [])
        return
    for name, count in (("empty", 0), ("one", 1), ("two", 2), ("many", longest)):
        if least <= count <= longest:
            yield ValueClass(name, items_of(schema, count))
    if longest >= 1 >= least:
        yield ValueClass("another one", items_of(schema, 1, after=1))


def _of_object(schema: JsonSchema, sample: Any) -> Iterator[ValueClass]:
    inner = schema.get("additionalProperties")
    if schema.get("properties"):
        yield ValueClass("with the least", least_of(schema))
        yield ValueClass("with everything", full_of(schema))
    elif isinstance(inner, Mapping):
        yield from _of_map(schema, inner, sample)
    elif isinstance(sample, Mapping) and sample:
        yield ValueClass("empty", {})


def _of_map(schema: JsonSchema, inner: JsonSchema, sample: Any) -> Iterator[ValueClass]:
    least, most = schema.get("minProperties") or 0, schema.get("maxProperties")
    longest = MOST_ITEMS if most is None else min(most, MOST_ITEMS)
    if isinstance(sample, Mapping) and len(sample) > least:
        yield ValueClass("without the first", dict(list(sample.items())[1:]))
    for name, count in (("empty", 0), ("one", 1), ("two", 2), ("many", longest)):
        if least <= count <= longest:
            made = {key_of(number): varied(least_of(inner), inner, number) for number in range(count)}
            yield ValueClass(name, made)
    if longest >= 1 >= least:
        yield ValueClass("another value", {key_of(0): varied(least_of(inner), inner, 1)})


def _refused(schema: JsonSchema, required: bool) -> Iterator[ValueClass]:
    if required and "default" not in schema:
        yield ValueClass("absent", ABSENT)
    if schema.get("enum"):
        yield ValueClass("no choice", _unlike(schema))
        return
    match schema.get("type"):
        case "boolean":
            yield ValueClass("a text", "true")
        case "integer" | "number":
            yield ValueClass("a text", "one")
            if "minimum" in schema:
                yield ValueClass("below the least", _whole(schema, schema["minimum"] - 1))
            if "maximum" in schema:
                yield ValueClass("above the most", _whole(schema, schema["maximum"] + 1))
        case "string":
            yield ValueClass("a number", 1)
            yield from _refused_texts(schema)
        case "array":
            yield ValueClass("a text", "one")
            if least := schema.get("minItems"):
                yield ValueClass("too few", items_of(schema, least - 1))
            most = schema.get("maxItems")
            if most is not None and most < 1_000:
                yield ValueClass("too many", items_of(schema, most + 1))
        case "object":
            yield ValueClass("a text", "one")
            if least := schema.get("minProperties"):
                yield ValueClass("too few", dict(list(least_of(schema).items())[: least - 1]))


def _refused_texts(schema: JsonSchema) -> Iterator[ValueClass]:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least:
        yield ValueClass("too short", "a" * (least - 1))
    if most is not None and most < 10_000:
        yield ValueClass("too long", "x" * (most + 1))
    if pattern is not None:
        text = unmatched_text(pattern)
        if text is not None:
            yield ValueClass("unlike the pattern", text)


def _unlike(schema: JsonSchema) -> Any:
    """A value of the type of an enum that is not one of its choices."""
    choices = schema["enum"]
    if all(isinstance(choice, str) for choice in choices):
        return "no-such-choice"
    return max((choice for choice in choices if isinstance(choice, int)), default=0) + 1


def _whole(schema: JsonSchema, value: Any) -> Any:
    return value if schema.get("type") == "number" else int(value)
