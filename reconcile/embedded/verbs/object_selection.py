"""Label, field and shard selectors: text in, a predicate over stored objects out."""

import re
from collections.abc import Mapping

from attrs import frozen

from informers.resource import Key
from reconcile.embedded.log import Stored
from reconcile.embedded.protocol.field_selectors import field_terms, value_at
from reconcile.embedded.protocol.label_selectors import LabelTest, parse_labels
from reconcile.embedded.refusals import bad_request, bare_server_error
from reconcile.embedded.served import ServedResource


@frozen
class ObjectSelection:
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


def selection(resource: ServedResource, namespace: str, query: Mapping[str, str]) -> ObjectSelection:
    """The selection that a request's query describes; 400 for what cannot be understood."""
    return ObjectSelection(
        namespace=namespace,
        labels=parse_labels(query.get("labelSelector", "")),
        fields=parse_fields(query.get("fieldSelector", ""), resource),
        shards=parse_shards(query.get("shardSelector", "")),
    )


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
    return path if resource.convert_path is None else resource.convert_path(path, resource.api_version)


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
        raise bare_server_error(f"invalid shard selector {text!r}: all ranges must be of the same field")
    return tuple(ranges)


def _shard_range(term: str, text: str) -> ShardRange:
    match = _SHARD.fullmatch(term)
    if match is None:
        raise bare_server_error(f"invalid shard selector {text!r}: expected shardRange(field, start, end)")
    start, end = _bound(match[2], text), _bound(match[3], text)
    if start >= end:
        raise bare_server_error(f"invalid shard selector {text!r}: the start must be below the end")
    return ShardRange(match[1].rsplit(".", 1)[1], start, end)


def _bound(text: str, selector: str) -> int:
    value = int(text, 16)
    if len(text) != 18 and text != hex(_END):
        raise bare_server_error(f"invalid shard selector {selector!r}: a bound has 16 hexadecimal digits")
    return value


def fnv1a(text: str) -> int:
    """The 64-bit FNV-1a hash of the UTF-8 text."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % _END
    return value
