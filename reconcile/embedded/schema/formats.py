"""The string formats that the API server checks."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, Final
from urllib.parse import urlsplit

UNCHECKED_FORMATS: Final = frozenset({"isbn", "isbn10", "isbn13", "creditcard"})
"""Formats that the real server checks and this one does not."""

_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)", re.ASCII)
_DURATION = re.compile(
    r"[+-]?(0|(\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w|"
    r"((milli|micro|nano)?second|minute|hour|day|week)s?|secs?|mins?|hrs?|wks?|nanos?|micros?|millis?)\s*"
    r"((\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w)\s*)*)",
    re.ASCII,
)
_HOSTNAME = re.compile(
    r"(?=.{1,255}\Z)[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*\.?"
)
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_RGB_COLOR = re.compile(
    r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,"
    r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)",
    re.ASCII,
)


def has_format(value: str, name: str) -> bool:
    """Whether a string has a format; an unknown format fits every string."""
    test = _TESTS.get(name)
    return test is None or test(value)


def _date_time(value: str) -> bool:
    found = _DATE_TIME.fullmatch(value)
    if found is None or not _date(found[1]):
        return False
    return int(found[2]) < 24 and max(int(found[3]), int(found[4])) < 60


def _date(value: str) -> bool:
    return len(value) == 10 and succeeds(date.fromisoformat, value)


def _uri(value: str) -> bool:
    return succeeds(urlsplit, value) and (bool(urlsplit(value).scheme) or value.startswith("/"))


def succeeds(parse: Callable[..., object], *values: Any) -> bool:
    """Whether `parse` accepts the values; False if it raises ValueError."""
    try:
        parse(*values)
    except ValueError:
        return False
    return True


def _shaped(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    shape = rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    return _shaped(re.compile(shape, re.IGNORECASE))


_TESTS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _shaped(re.compile(r"[0-9A-Fa-f]{24}")),
    "byte": lambda value: succeeds(partial(base64.b64decode, validate=True), value),
    "cidr": lambda value: "/" in value and succeeds(partial(ip_network, strict=False), value),
    "date": _date,
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": lambda value: _DURATION.fullmatch(value.strip().lower()) is not None,
    "email": _shaped(re.compile(r"[^@\s<>()]+@[^@\s<>()]+")),
    "hexcolor": _shaped(re.compile(r"#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})")),
    "hostname": _shaped(_HOSTNAME),
    "ipv4": lambda value: succeeds(IPv4Address, value),
    "ipv6": lambda value: succeeds(IPv6Address, value),
    "mac": _shaped(
        re.compile(r"([0-9A-Fa-f]{2}[:-]){5,7}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{4}\.){2,3}[0-9A-Fa-f]{4}")
    ),
    # Go reads a MicroTime with exactly six digits after the second (RFC3339Micro in apimachinery).
    "micro-time": lambda value: _MICRO_TIME.fullmatch(value) is not None and _date_time(value),
    "rgbcolor": _shaped(_RGB_COLOR),
    "ssn": _shaped(re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}", re.ASCII)),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid(version="3"),
    "uuid4": _uuid(version="4", variant="[89ab]"),
    "uuid5": _uuid(version="5", variant="[89ab]"),
}


_RECOGNISED: Final = {
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
    "string": frozenset(
        {
            "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3",
            "uuid4", "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte",
            "password", "date", "duration", "datetime", "k8sshortname", "k8slongname",
        }
    ),
}  # fmt: skip
"""The formats that a real server knows, without their dashes, by the type of values."""


def unknown_formats(schema: Any) -> Iterator[str]:
    """The formats in a schema that a real server does not know, and ignores."""
    if isinstance(schema, list):
        for part in schema:
            yield from unknown_formats(part)
    if not isinstance(schema, Mapping):
        return
    known = _RECOGNISED.get(schema.get("type") or "string", frozenset())
    form = schema.get("format") or ""
    if form and (form.replace("-", "") if schema.get("type") in (None, "", "string") else form) not in known:
        yield form
    for keyword in ("items", "allOf", "anyOf", "oneOf", "not", "additionalProperties"):
        yield from unknown_formats(schema.get(keyword))
    for member in (schema.get("properties") or {}).values():
        yield from unknown_formats(member)
