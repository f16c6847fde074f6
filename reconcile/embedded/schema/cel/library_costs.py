"""What Kubernetes' CEL functions cost for values of given sizes, as its CostEstimator has it."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from reconcile.embedded.schema.cel.checked_tree import CelKind
from reconcile.embedded.schema.cel.declared import Declared
from reconcile.embedded.schema.cel.sizes import (
    PATTERN_FACTOR,
    TEXT_FACTOR,
    UNKNOWN,
    Node,
    Size,
    added,
    multiplied,
    scaled,
)

# MaxNameFormatRegexSize of k8s.io/apiserver.
_FORMAT_PATTERN: Final = 128

_Cost = tuple[int, Size | None]
_IP: Final = Size(4, 16)
_CHEAP: Final = frozenset(
    {
        "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan",
        "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname", "getHost",
        "getPort", "getEscapedPath", "getQuery", "masked", "prefixLength", "family", "isUnspecified",
        "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
    }
)  # fmt: skip
_PARSERS: Final = frozenset({"cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"})
_OVER_LISTS: Final = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"})
_OPAQUE: Final = ("kubernetes.IP", "kubernetes.CIDR", "kubernetes.Quantity", "kubernetes.Semver")
Lookup = Callable[[tuple[str, ...]], Declared | None]


def library_cost(name: str, target: Node | None, arguments: Sequence[Node], lookup: Lookup) -> _Cost | None:
    """The units of one of Kubernetes' functions without its arguments, and the size of its result.

    None for others.
    """
    if name in _OVER_LISTS and target is not None:
        return _over_list(name, target, lookup), None
    if name in ("url", "jsonpatch.escapeKey") and arguments:
        size = arguments[0].known_size
        return scaled(size.most, TEXT_FACTOR), size
    if target is not None and (made := _TEXT_COSTS.get(name)) is not None:
        return made(target, arguments)
    if name == "join" and target is not None:
        return _joined(target, arguments, lookup)
    return _plain(name, target, arguments)


def _plain(name: str, target: Node | None, arguments: Sequence[Node]) -> _Cost | None:
    """Functions whose results have no size of their own."""
    if name in _CHEAP or (name == "ip" and target is not None):
        return 1, None
    first = arguments[0].known_size.most if arguments else 0
    if name in _PARSERS and arguments:
        return scaled(first, TEXT_FACTOR), None
    if name == "ip.isCanonical":
        return scaled(first, 2 * TEXT_FACTOR), None
    if name == "validate" and arguments:
        return scaled(scaled(first, TEXT_FACTOR), _FORMAT_PATTERN * PATTERN_FACTOR), None
    if name in ("containsIP", "containsCIDR") and arguments:
        units = scaled(2 * _IP.most, TEXT_FACTOR)
        if name == "containsCIDR":
            units += scaled(_IP.most, TEXT_FACTOR) + 1
        if arguments[0].kind.name == "string":
            units = added(units, scaled(first, TEXT_FACTOR))
        return units, None
    if name == "_==_" and len(arguments) == 2 and arguments[0].kind.name in _OPAQUE:
        return 1, None
    return None


def _over_list(name: str, target: Node, lookup: Lookup) -> int:
    size = target.known_size.most
    item = _item(target)
    if item is None:
        return size if name == "includes" else scaled(size, TEXT_FACTOR)
    each = 1
    if item.name in ("string", "bytes"):
        each = added(1, scaled(_item_size(target, lookup).most, TEXT_FACTOR))
    return multiplied(size, each)


def _item(target: Node) -> CelKind | None:
    return target.kind.inner[0] if target.kind.inner else None


def _item_size(target: Node, lookup: Lookup) -> Size:
    found = lookup((*target.path, "@items")) if target.path else None
    return UNKNOWN if found is None else Size(0, found.most)


def _joined(target: Node, arguments: Sequence[Node], lookup: Lookup) -> _Cost:
    count = target.known_size
    size = count.times(_item_size(target, lookup)) if _item(target) is not None else Size(0, 0)
    if arguments:
        between = Size(max(0, count.least - 1), max(0, count.most - 1))
        size = size.plus(arguments[0].known_size.times(between))
    return scaled(size.most, TEXT_FACTOR), size


def _kept(target: Node, arguments: Sequence[Node]) -> _Cost:
    return scaled(target.known_size.most, TEXT_FACTOR), target.known_size


def _replaced(target: Node, arguments: Sequence[Node]) -> _Cost | None:
    if len(arguments) < 2:
        return None
    text, old, new = target.known_size, arguments[0].known_size, arguments[1].known_size
    most, kept = _most_replaced(text.most, old.least, new.most)
    least, kept_least = _least_replaced(text.least, old.most, new.least)
    size = Size(least, most).times(new).plus(Size(kept_least, kept))
    return scaled(text.most, 2 * TEXT_FACTOR), size


def _most_replaced(text: int, old: int, new: int) -> tuple[int, int]:
    """How often the shortest part may be replaced, and how much of the text may stay."""
    if old == 0:
        return added(text, 1), text
    return (0, text) if new <= old else (math.ceil(text / old), 0)


def _least_replaced(text: int, old: int, new: int) -> tuple[int, int]:
    if old == 0:
        return added(text, 1), text
    return (0, text) if old <= new else (math.ceil(text / old), 0)


def _split(target: Node, arguments: Sequence[Node]) -> _Cost:
    most = target.known_size.most
    limit = arguments[1].value if len(arguments) > 1 else None
    parts = limit if isinstance(limit, int) and limit >= 0 else most
    return scaled(most, 2 * TEXT_FACTOR), Size(0, parts)


def _found(target: Node, arguments: Sequence[Node]) -> _Cost | None:
    if not arguments:
        return None
    text = scaled(added(target.known_size.most, 1), TEXT_FACTOR)
    pattern = scaled(arguments[0].known_size.most, PATTERN_FACTOR)
    return multiplied(text, pattern), Size(0, target.known_size.most)


_TEXT_COSTS: Final[dict[str, Callable[[Node, Sequence[Node]], _Cost | None]]] = {
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _kept),
    **dict.fromkeys(("find", "findAll"), _found),
    "replace": _replaced,
    "split": _split,
}
