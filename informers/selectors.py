"""Whether an object is among those that an informer asks its server for."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from informers.snapshot import Snapshot

Matches = Callable[[Snapshot], bool]

_SETS = re.compile(r"^\s*(?P<key>[^\s!=<>,()]+)\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUALS = re.compile(r"^\s*(?P<key>[^\s!=<>,()]+)\s*(?P<word>==|=|!=)\s*(?P<value>[^\s!=<>,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<word>!?)\s*(?P<key>[^\s!=<>,()]+)\s*$")
_SHARD = re.compile(
    r"\s*shardRange\(\s*object\.metadata\.(uid|namespace)\s*,"
    r"\s*'0x([0-9a-f]{16}|10000000000000000)'\s*,\s*'0x([0-9a-f]{16}|10000000000000000)'\s*\)\s*"
)
"""As strict as an API server, which answers 500 to a bound of fewer digits (KEP-5866)."""
SHARD_EXAMPLE = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"


def selects(labels: str = "", fields: str = "", shard: str = "") -> Matches:
    """What a label selector, a field selector and a shard selector together choose.

    Raises ValueError for what is none.
    """
    tests = [*map(_label_test, _split(labels)), *map(_field_test, _split(fields))]
    if shard:
        shards = [_shard_test(part) for part in shard.split("||")]
        if len(set(re.findall(r"object\.metadata\.(\w+)", shard))) > 1:
            raise ValueError(
                f"{shard!r} is no shard selector: expected ranges of uid, or of namespace, not both"
            )
        tests.append(lambda snapshot: any(within(snapshot) for within in shards))
    return lambda snapshot: all(test(snapshot) for test in tests)


def _split(selector: str) -> list[str]:
    """The requirements of a selector; a comma within parentheses is not between two."""
    return [part for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _label_test(requirement: str) -> Matches:
    if found := _SETS.match(requirement):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["word"] == "in":
            return lambda snapshot: snapshot.labels.get(key) in values
        return lambda snapshot: snapshot.labels.get(key) not in values
    if found := _EQUALS.match(requirement):
        key, value = found["key"], found["value"]
        if found["word"] == "!=":
            return lambda snapshot: snapshot.labels.get(key) != value
        return lambda snapshot: snapshot.labels.get(key) == value
    if found := _EXISTS.match(requirement):
        key, wanted = found["key"], not found["word"]
        return lambda snapshot: (key in snapshot.labels) is wanted
    raise ValueError(f"{requirement!r} is no label selector: app=web, tier in (a, b), !canary")


def _field_test(requirement: str) -> Matches:
    found = _EQUALS.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} is no field selector: metadata.name=web, spec.nodeName!=a")
    path, value, wanted = found["key"].split("."), found["value"], found["word"] != "!="
    if path == ["metadata", "name"]:
        return lambda snapshot: (snapshot.key.name == value) is wanted
    if path == ["metadata", "namespace"]:
        return lambda snapshot: (snapshot.key.namespace == value) is wanted
    return lambda snapshot: (_text_at(snapshot.to_dict(), path) == value) is wanted


def _text_at(content: Mapping[str, Any], path: list[str]) -> str:
    found: Any = content
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def _shard_test(shard: str) -> Matches:
    found = _SHARD.fullmatch(shard)
    if found is None:
        raise ValueError(
            f"{shard!r} is no shard selector: expected bounds of 16 lower-case hex digits, "
            f"such as {SHARD_EXAMPLE}"
        )
    by_uid, start, end = found[1] == "uid", int(found[2], 16), int(found[3], 16)
    if start >= end:
        raise ValueError(f"{shard!r} is no shard selector: expected a start below the end")
    return lambda snapshot: start <= _fnv1a(snapshot.uid if by_uid else snapshot.key.namespace) < end


def _fnv1a(text: str) -> int:
    """FNV-1a, 64 bits: how an API server spreads objects over shards (KEP-5866)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
