"""Label, field and shard selectors: text in, a predicate over stored objects out."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from informers.resource import Key
from reconcile.embedded.kinds.event_conversion import event_path
from reconcile.embedded.log import Stored
from reconcile.embedded.metadata import label_key_faults, label_value_faults
from reconcile.embedded.protocol.field_selectors import field_terms
from reconcile.embedded.refusals import bad_request, untidy
from reconcile.embedded.served import ServedResource

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)

LabelTest = Callable[[Mapping[str, str]], bool]


@frozen
class Selection:
    """What a list or a watch asks for."""

    namespace: str = ""
    labels: tuple[LabelTest, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()
    """Path, value, and whether it must be equal (or else must not)."""
    shards: tuple["ShardRange", ...] = ()

    @property
    def filters(self) -> bool:
        """Whether there is a label or field selector, which is what hides the count of what remains."""
        return bool(self.labels or self.fields)

    @property
    def narrows(self) -> bool:
        """Whether a selector was given (the namespace is none)."""
        return bool(self.labels or self.fields or self.shards)

    def matches(self, stored: Stored) -> bool:
        """Whether the object is selected."""
        if self.namespace and stored.key.namespace != self.namespace:
            return False
        if not all(test(stored.labels) for test in self.labels):
            return False
        if not all((field_value(stored, path) == value) is equal for path, value, equal in self.fields):
            return False
        return not self.shards or any(shard.contains(stored) for shard in self.shards)

    def wants(self, key: Key) -> bool:
        """A cheap first look that rules out other namespaces."""
        return not self.namespace or key.namespace == self.namespace


def selection(resource: ServedResource, namespace: str, query: Mapping[str, str]) -> Selection:
    """The selection that a request's query describes; 400 for what cannot be understood."""
    return Selection(
        namespace=namespace,
        labels=parse_labels(query.get("labelSelector", "")),
        fields=parse_fields(query.get("fieldSelector", ""), resource),
        shards=parse_shards(query.get("shardSelector", "")),
    )


# --- labels -----------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")


def parse_labels(text: str) -> tuple[LabelTest, ...]:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`: all must hold."""
    if not text:
        return ()
    tokens = _tokens(text)
    tests: list[LabelTest] = []
    while tokens:
        tests.append(_requirement(tokens))
        if tokens and tokens.pop(0) != ",":
            raise _unparsable(text)
        if not tokens and text.rstrip().endswith(","):
            raise _unparsable(text)
    return tuple(tests)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise _unparsable(text)
        tokens.append(match[1])
        at = match.end()
    return tokens


def _requirement(tokens: list[str]) -> LabelTest:
    first = tokens.pop(0)
    if first == "!":
        key = _label_key(tokens.pop(0) if tokens else "")
        return lambda labels: key not in labels
    key = _label_key(first)
    if not tokens or tokens[0] == ",":
        return lambda labels: key in labels
    operator = tokens.pop(0)
    if operator in ("in", "notin"):
        values = _value_set(tokens)
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    value = tokens.pop(0) if tokens and tokens[0] != "," else ""
    if operator in ("=", "=="):
        wanted = _label_value(value)
        return lambda labels: labels.get(key) == wanted
    if operator == "!=":
        unwanted = _label_value(value)
        return lambda labels: labels.get(key) != unwanted
    if operator in ("<", ">"):
        return _comparison(key, operator, value)
    raise _unparsable(f"{key} {operator}")


def _comparison(key: str, operator: str, value: str) -> LabelTest:
    if not _INTEGER.fullmatch(value):
        raise bad_request(f'unable to parse requirement: "{value}": for \'Gt\', \'Lt\' operators, '
                          "the value must be an integer")  # fmt: skip
    bound = int(value)

    def compare(labels: Mapping[str, str]) -> bool:
        found = labels.get(key, "")
        if not _INTEGER.fullmatch(found):
            return False
        return int(found) > bound if operator == ">" else int(found) < bound

    return compare


def _value_set(tokens: list[str]) -> frozenset[str]:
    if not tokens or tokens.pop(0) != "(":
        raise bad_request("unable to parse requirement: found '', expected: '('")
    if tokens[:1] == [")"]:
        raise bad_request(
            "unable to parse requirement: for 'in', 'notin' operators, values set can't be empty"
        )
    values: set[str] = set()
    expect_value = True
    while tokens:
        token = tokens.pop(0)
        if token in (")", ","):
            if expect_value:
                values.add("")
            if token == ")":
                return frozenset(values)
            expect_value = True
        elif expect_value:
            values.add(_label_value(token))
            expect_value = False
        else:
            raise bad_request(f"unable to parse requirement: found '{token}', expected: ',' or ')'")
    raise bad_request("unable to parse requirement: found '', expected: ',', or ')'")


def _label_key(key: str) -> str:
    if label_key_faults(key):
        raise _unparsable(key)
    return key


def _label_value(value: str) -> str:
    if label_value_faults(value):
        raise _unparsable(value)
    return value


def _unparsable(text: str) -> Exception:
    return bad_request(f"unable to parse requirement: found '{text}', expected: a label selector")


# --- fields -----------------------------------------------------------------------------------


def parse_fields(text: str, resource: ServedResource) -> tuple[tuple[str, str, bool], ...]:
    """`metadata.name=a,spec.nodeName!=b`: all must hold; 400 for a field that cannot be selected by."""
    if not text:
        return ()
    try:
        terms = field_terms(text)
    except ValueError as error:
        raise bad_request(str(error)) from None
    known = {"metadata.name", *(path.lstrip(".") for path in resource.selectable_fields)}
    if resource.namespaced:
        known.add("metadata.namespace")
    for path, _, _ in terms:
        if path not in known:
            raise bad_request(f"field label not supported: {path}")
    return tuple(terms)


def field_value(stored: Stored, path: str) -> str:
    """The value of a selectable field, as text; empty where it is missing."""
    if path == "metadata.name":
        return stored.key.name
    if path == "metadata.namespace":
        return stored.key.namespace
    if path not in stored.fields:
        obj = stored.decode()
        if stored.encoded_by.custom:
            stored.encoded_by.kept_schema.default(obj)
        stored.fields[path] = value_at(obj, _stored_path(stored, path))
    return stored.fields[path]


def _stored_path(stored: Stored, path: str) -> str:
    """An event may be stored in the words of the other group than it is asked for in."""
    resource = stored.encoded_by
    if resource.custom or resource.kind != "Event":
        return path
    return event_path(path, resource.api_version)


def value_at(obj: Mapping[str, Any], path: str) -> str:
    """The scalar at a dotted path, as field selectors compare it."""
    value: Any = obj
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


# --- shards -----------------------------------------------------------------------------------

_SHARD = re.compile(
    r"\s*shardRange\(\s*(object\.metadata\.(?:uid|namespace))\s*,\s*'(0x[0-9a-f]+)'\s*,\s*'(0x[0-9a-f]+)'\s*\)\s*"
)
_END = 2**64


@frozen
class ShardRange:
    """Objects whose hash of uid or namespace lies in [start, end)."""

    by: str
    start: int
    end: int

    def contains(self, stored: Stored) -> bool:
        """Whether the object belongs to the range."""
        return self.start <= fnv1a(stored.uid if self.by == "uid" else stored.key.namespace) < self.end


def parse_shards(text: str) -> tuple[ShardRange, ...]:
    """`shardRange(object.metadata.uid, '0x…', '0x…') || …`; a bad one is a 500 on the real server too."""
    if not text.strip():
        return ()
    ranges = [_shard_range(term, text) for term in text.split("||")]
    if len({shard.by for shard in ranges}) > 1:
        raise untidy(f"invalid shard selector {text!r}: all ranges must be of the same field")
    return tuple(ranges)


def _shard_range(term: str, text: str) -> ShardRange:
    match = _SHARD.fullmatch(term)
    if match is None:
        raise untidy(f"invalid shard selector {text!r}: expected shardRange(field, start, end)")
    start, end = _bound(match[2], text), _bound(match[3], text)
    if start >= end:
        raise untidy(f"invalid shard selector {text!r}: the start must be below the end")
    return ShardRange(match[1].rsplit(".", 1)[1], start, end)


def _bound(text: str, selector: str) -> int:
    value = int(text, 16)
    if len(text) != 18 and text != hex(_END):
        raise untidy(f"invalid shard selector {selector!r}: a bound has 16 hexadecimal digits")
    return value


def fnv1a(text: str) -> int:
    """The 64-bit FNV-1a hash of the UTF-8 text."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % _END
    return value
