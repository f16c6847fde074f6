"""Reads values of options from text or objects. Each function raises ValueError with what it expected."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar, get_args

from informers import InformerOptions, Transport
from reconcile.client.object_selectors import parse_labels
from reconcile.manager.leader_election import LeaderElection
from reconcile.models import Object, kind_of
from reconcile.ops.serving_addresses import parse_address

if TYPE_CHECKING:
    from reconcile.sharding.options import Sharding

ReadyWhen = Literal["up", "synced", "leading"]
ServeMetrics = Literal["all", "local"]
Definitions = Literal["check", "apply"]

N = TypeVar("N", int, float)
ByController: TypeAlias = N | Mapping[str, N]
"""One number, for controllers that set none, or numbers by name, which go first; the empty name: all others.
"""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def as_given(value: Any) -> Any:
    return value


def seconds(value: object) -> float:
    return _number(value, "a number of seconds")


def positive_seconds(value: object) -> float:
    return _number(value, "a number of seconds above 0") or _refuse("a number of seconds above 0", value)


def rate(value: object) -> float:
    return _number(value, "a number of requests a second")


def count(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() and int(text) else _refuse("a whole number above 0", value)


def path(value: object) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def megabytes(value: object) -> float:
    number = _number(value, "a number of megabytes from 1 on")
    return number if number >= 1 else _refuse("a number of megabytes from 1 on", value)


def _number(value: Any, expected: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    return number if 0 <= number < float("inf") else _refuse(expected, value)


def _refuse(expected: str, value: object) -> NoReturn:
    raise ValueError(f"expected {expected}, got {value!r}")


def switch(value: object) -> bool:
    text = str(value).lower()
    return text in ("true", "1") if text in ("true", "false", "1", "0") else _refuse("true or false", value)


def by_controller(read: Callable[[object], N]) -> Callable[[Any], "ByController[N]"]:
    """One number, or one for each controller that is named, each read with `read`."""

    def each(value: Any) -> ByController[N]:
        if isinstance(value, Mapping):
            return {name: read(number) for name, number in value.items()}
        if not isinstance(value, str):
            return read(value)
        pairs = [part.strip().rpartition("=") for part in value.split(",")]
        values = {name.strip(): read(number.strip()) for name, _, number in pairs}
        if len(values) < len(pairs) or any(bool(name) != bool(sign) for name, sign, _ in pairs):
            _refuse("a number, or NAME=NUMBER with each name once, comma-separated", value)
        return values[""] if set(values) == {""} else values

    return each


def one_of(choices: Any, *, optional: bool = False) -> Callable[[str | None], Any]:
    """A word of a Literal; if it is `optional`, None for nothing."""
    words = get_args(choices)

    def choice(value: str | None) -> Any:
        if optional and not value:
            return None
        return value if value in words else _refuse(f"one of {', '.join(words)}", value)

    return choice


def namespaces(value: str | Iterable[str]) -> Sequence[str]:
    names = (name.strip() for name in value.split(",")) if isinstance(value, str) else value
    found = tuple(dict.fromkeys(names)) if value else ()
    for name in found:
        if not _LABEL.fullmatch(name):
            _refuse("a name of a namespace (a-z, 0-9 and dashes)", name)
    return found


def clusters(value: str | Mapping[str, Transport | str]) -> Mapping[str, Transport | str]:
    if isinstance(value, str):
        pairs = [part.strip().partition("=") for part in value.split(",")] if value else []
        text, value = value, {name: context for name, _, context in pairs}
        if len(value) < len(pairs) or not all(value.values()):
            _refuse("NAME=CONTEXT with each name once, comma-separated", text)
    for name in value:
        if not _LABEL.fullmatch(name):
            _refuse("a name of a cluster (a-z, 0-9 and dashes)", name)
    return value


def address(value: str) -> str:
    if value:
        parse_address(value)
    return value


def lease(value: str | LeaderElection | None) -> LeaderElection | None:
    if not isinstance(value, str):
        return value
    return LeaderElection(*_name_and_namespace(value, "a Lease")) if value else None


def sharding(value: "str | Sharding | None") -> "Sharding | None":
    if not isinstance(value, str):
        return value
    from reconcile.sharding.options import Sharding

    return Sharding(*_name_and_namespace(value, "a ring")) if value else None


def _name_and_namespace(value: str, what: str) -> tuple[str, str]:
    namespace, _, name = value.rpartition("/")
    if not name or "/" in namespace:
        _refuse(f"NAME or NAMESPACE/NAME of {what}", value)
    return name, namespace or "default"


def share(value: object) -> float:
    """A share from 0 to 1, or in per cent as text."""
    expected, text = "a share such as 5% or 0.05", str(value)
    digits, percent = text.removesuffix("%"), text.endswith("%")
    try:
        number = float(digits) / (100 if percent else 1)
    except ValueError:
        _refuse(expected, value)
    return number if 0 <= number <= 1 else _refuse(expected, value)


def service(value: str) -> str:
    """NAMESPACE/NAME of a Service, or empty text."""
    if (value and not all(map(_LABEL.fullmatch, value.split("/")))) or value.count("/") != bool(value):
        _refuse("NAMESPACE/NAME of a Service", value)
    return value


def labels(value: str) -> str:
    if value:
        parse_labels(value)
    return value


def informer_options(value: Mapping[type[Object], InformerOptions]) -> Mapping[type[Object], InformerOptions]:
    """What is followed and kept of kinds. Raises TypeError for a key that is not a kind."""
    for kind in value:
        if kind is not Object:
            kind_of(kind)
    return value
