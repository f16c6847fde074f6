"""Values that a schema admits, made from the schema alone."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconcile.testing.spec_transitions.sample_texts import admits_text, texts_of

DEEPEST: Final = 8
"""Levels below which nothing optional is filled in."""
LARGEST: Final = 12
"""The most that a number is given whose schema admits more: it may be a number of children."""
FEW: Final = 3
"""Of ten or more children, the first three by name are not the first three by number."""
_TEN: Final = 10

JsonSchema = Mapping[str, Any]


def least_of(schema: JsonSchema) -> Any:
    """The least value that a schema admits, as far as its keywords say: what is optional is left out."""
    return _sample(schema, 0)


def full_of(schema: JsonSchema) -> Any:
    """A value in which each optional field has a value too, down to `DEEPEST`."""
    return _sample(schema, DEEPEST)


def items_of(schema: JsonSchema, count: int, *, after: int = 0) -> list[Any]:
    """So many different items of a list of `schema`, the first being number `after`."""
    item = schema.get("items") or {}
    return [varied(least_of(item), item, number) for number in range(after, after + count)]


def varied(value: Any, schema: JsonSchema, number: int) -> Any:
    """Another value of the same shape: its texts end with the number, its numbers are larger by it."""
    if number == 0:
        return value
    if choices := schema.get("enum"):
        return choices[(choices.index(value) + number) % len(choices)] if value in choices else value
    if isinstance(value, Mapping):
        parts = schema.get("properties") or {}
        rest = schema.get("additionalProperties")
        other = rest if isinstance(rest, Mapping) else {}
        return {name: varied(part, parts.get(name, other), number) for name, part in value.items()}
    if isinstance(value, str):
        return _varied_text(value, schema, number)
    if isinstance(value, int) and not isinstance(value, bool):
        return value + number if _within(schema, value + number) else value
    return value


def _varied_text(value: str, schema: JsonSchema, number: int) -> str:
    text = f"{value}{number}"
    if admits_text(schema, text):
        return text
    known = texts_of(schema)
    return known[number % len(known)] if known else value


def numbers_of(schema: JsonSchema) -> Sequence[tuple[str, Any]]:
    """Names and values of the classes of a number: below zero, least, zero, one, a few of many, most."""
    whole = schema.get("type") != "number"
    least, most = _limits(schema)
    found: list[tuple[str, Any]] = [("below zero", -1)] if least is None else [("least", least)]
    found += [("zero", 0), ("one", 1)]
    if not whole:
        found.append(("a fraction", 0.5))
    elif most is None or most >= _TEN:
        found.append(("a few", FEW))
    if most is None or most > LARGEST:
        found.append(("many", LARGEST if least is None else max(LARGEST, least + 1)))
    else:
        found.append(("most", most))
    step = schema.get("multipleOf")
    if step:
        found = [(name, value // step * step) for name, value in found]
    return [(name, value) for name, value in found if _within(schema, value)]


def _limits(schema: JsonSchema) -> tuple[Any, Any]:
    least, most = schema.get("minimum"), schema.get("maximum")
    whole = schema.get("type") != "number"
    nudge = 1 if whole else 0.5
    if least is not None and schema.get("exclusiveMinimum"):
        least += nudge
    if most is not None and schema.get("exclusiveMaximum"):
        most -= nudge
    if whole:
        least, most = (None if limit is None else int(limit) for limit in (least, most))
    return least, most


def _within(schema: JsonSchema, value: Any) -> bool:
    least, most = _limits(schema)
    return (least is None or value >= least) and (most is None or value <= most)


def _sample(schema: JsonSchema, filled: int) -> Any:
    """A value, with what is optional filled in for so many levels."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        texts = texts_of(schema) if schema.get("pattern") else ()
        return 1 if not texts or "1" in texts else texts[0]
    kind = schema.get("type")
    if kind == "boolean":
        return False
    if kind in ("integer", "number"):
        return _sample_number(schema)
    if kind == "string":
        return next(iter(texts_of(schema)), "" if schema.get("maxLength") == 0 else "a")
    if kind == "array":
        count = _count(schema.get("minItems"), schema.get("maxItems"), filled)
        item = schema.get("items") or {}
        return [varied(_sample(item, max(filled - 1, 0)), item, number) for number in range(count)]
    if kind == "object" or schema.get("properties"):
        return _sample_object(schema, filled)
    return {}


def _sample_number(schema: JsonSchema) -> Any:
    classes = dict(numbers_of(schema))
    return classes.get("one", classes.get("least", classes.get("most", classes.get("zero", 1))))


def _sample_object(schema: JsonSchema, filled: int) -> dict[str, Any]:
    parts, required = schema.get("properties") or {}, schema.get("required") or ()
    made = {
        name: _sample(part, max(filled - 1, 0))
        for name, part in parts.items()
        if name in required or (filled and not _is_open(part))
    }
    inner = schema.get("additionalProperties")
    count = _count(schema.get("minProperties"), schema.get("maxProperties"), filled)
    if isinstance(inner, Mapping):
        for number in range(count):
            made[key_of(number)] = varied(_sample(inner, max(filled - 1, 0)), inner, number)
    return made


def _count(least: int | None, most: int | None, filled: int) -> int:
    """How many items a sample has: one if it is filled in, as far as the schema admits that."""
    count = max(least or 0, 1 if filled else 0)
    return count if most is None else min(count, most)


def _is_open(schema: JsonSchema) -> bool:
    """Whether the schema does not say what belongs there, so that nothing can be made up."""
    return bool(schema.get("x-kubernetes-preserve-unknown-fields")) and not schema.get("properties")


def key_of(number: int) -> str:
    """The key of a map's entry that is made up."""
    return "abcdefghijklmnopqrstuvwxyz"[number % 26] * (1 + number // 26)
