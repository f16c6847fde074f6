"""The functions that Kubernetes adds to CEL: lists, regular expressions, quantities, URLs, IPs and CIDRs.

For the type checker quantities, URLs, IPs and CIDRs are types of their own. When a rule runs they are maps,
the one form in which such a value passes between CEL and Python.
"""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any, Final

from attrs import frozen
from cel_expr_python import cel

from reconcile.embedded.schema.cel import network
from reconcile.embedded.schema.cel.network import Opaque
from reconcile.embedded.schema.patterns import compile_pattern, repetitions
from reconcile.embedded.schema.quantities import canonical_quantity, quantity_value
from reconcile.embedded.schema.values import is_number

NOT_EVALUATED: Final = frozenset({"format", "semver", "isSemver", "authorizer", "jsonpatch"})
"""What rules may use on a real server and not here; schemas with such rules are served with a warning.

So are lists' `indexOf` and `lastIndexOf`, names that belong to strings in the CEL library, and the macros
`transformMap` and `transformMapEntry`, which it checks and does not run.
"""

_INT_RANGE: Final = range(-(2**63), 2**63)


@frozen
class Signature:
    """One overload: `target` is empty for a function that is not called on a value."""

    name: str
    target: str
    arguments: tuple[str, ...]
    result: str
    run: Callable[..., Any]


def declarations(*, opaque: bool) -> list[cel.FunctionDecl]:
    """The functions, for an environment to check types with (`opaque`) or to run in."""
    overloads: dict[str, list[cel.Overload]] = {}
    for signature in _SIGNATURES:
        parameters = (signature.target, *signature.arguments) if signature.target else signature.arguments
        overloads.setdefault(signature.name, []).append(
            cel.Overload(
                f"kubernetes_{signature.name}_{'_'.join(parameters)}_{bool(signature.target)}",
                return_type=_type(signature.result, opaque=opaque),
                parameters=[_type(name, opaque=opaque) for name in parameters],
                is_member=bool(signature.target),
                impl=signature.run,
            )
        )
    return [cel.FunctionDecl(name, found) for name, found in overloads.items()]


_TYPES: Final = {
    "bool": cel.Type.BOOL,
    "bytes": cel.Type.BYTES,
    "double": cel.Type.DOUBLE,
    "dyn": cel.Type.DYN,
    "int": cel.Type.INT,
    "string": cel.Type.STRING,
    "list": cel.Type.List(cel.Type.DYN),
    "map": cel.Type.Map(cel.Type.DYN, cel.Type.DYN),
    "strings": cel.Type.List(cel.Type.STRING),
    "query": cel.Type.Map(cel.Type.STRING, cel.Type.List(cel.Type.STRING)),
}


def _type(name: str, *, opaque: bool) -> cel.Type:
    if name in _TYPES:
        return _TYPES[name]
    return cel.Type.AbstractType(f"kubernetes.{name}") if opaque else _TYPES["map"]


# --- lists ------------------------------------------------------------------------------------


def _is_sorted(items: list[Any]) -> bool:
    return all(earlier <= later for earlier, later in pairwise(items))


def _sum(items: list[Any]) -> Any:
    if not all(is_number(item) for item in items):
        raise ValueError("sum is for numbers")
    return sum(items)


# --- regular expressions ----------------------------------------------------------------------


def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: Iterator[str] = (match[0] for match in _compiled(pattern).finditer(text))
    return list(found if limit < 0 else islice(found, limit))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = compile_pattern(pattern)
    except re.error as error:
        raise ValueError(f"Illegal regex: {error}") from None
    nested, _ = repetitions(pattern)
    if nested:
        raise ValueError(f"find and findAll do not take repetitions of repetitions here: {pattern}")
    return compiled


# --- quantities -------------------------------------------------------------------------------


def _quantity(text: str) -> Opaque:
    return {"quantity": canonical_quantity(str(quantity_value(text)))}


def _is_quantity(text: str) -> bool:
    try:
        quantity_value(text)
    except ValueError:
        return False
    return True


def _worth(quantity: Opaque) -> Decimal:
    return quantity_value(quantity["quantity"])


def _compare(left: Opaque, right: Opaque) -> int:
    return (_worth(left) > _worth(right)) - (_worth(left) < _worth(right))


def _sign(quantity: Opaque) -> int:
    return (_worth(quantity) > 0) - (_worth(quantity) < 0)


def _is_integer(quantity: Opaque) -> bool:
    worth = _worth(quantity)
    return worth == worth.to_integral_value() and int(worth) in _INT_RANGE


def _as_integer(quantity: Opaque) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return int(_worth(quantity))


def _add(left: Opaque, right: Opaque) -> Opaque:
    return _quantity(format(_worth(left) + _worth(right), "f"))


def _subtract(left: Opaque, right: Opaque) -> Opaque:
    return _quantity(format(_worth(left) - _worth(right), "f"))


def _whole(number: int) -> Opaque:
    return _quantity(str(number))


# --- the table --------------------------------------------------------------------------------

_SIGNATURES: Final = (
    Signature("isSorted", "list", (), "bool", _is_sorted),
    Signature("sum", "list", (), "dyn", _sum),
    Signature("min", "list", (), "dyn", min),
    Signature("max", "list", (), "dyn", max),
    Signature("find", "string", ("string",), "string", _find),
    Signature("findAll", "string", ("string",), "strings", _find_all),
    Signature("findAll", "string", ("string", "int"), "strings", _find_all),
    Signature("quantity", "", ("string",), "Quantity", _quantity),
    Signature("isQuantity", "", ("string",), "bool", _is_quantity),
    Signature("sign", "Quantity", (), "int", _sign),
    Signature("isInteger", "Quantity", (), "bool", _is_integer),
    Signature("asInteger", "Quantity", (), "int", _as_integer),
    Signature("asApproximateFloat", "Quantity", (), "double", lambda quantity: float(_worth(quantity))),
    Signature("compareTo", "Quantity", ("Quantity",), "int", _compare),
    Signature("isGreaterThan", "Quantity", ("Quantity",), "bool", lambda a, b: _compare(a, b) > 0),
    Signature("isLessThan", "Quantity", ("Quantity",), "bool", lambda a, b: _compare(a, b) < 0),
    Signature("add", "Quantity", ("Quantity",), "Quantity", _add),
    Signature("add", "Quantity", ("int",), "Quantity", lambda a, b: _add(a, _whole(b))),
    Signature("sub", "Quantity", ("Quantity",), "Quantity", _subtract),
    Signature("sub", "Quantity", ("int",), "Quantity", lambda a, b: _subtract(a, _whole(b))),
    Signature("url", "", ("string",), "URL", network.url),
    Signature("isURL", "", ("string",), "bool", network.is_url),
    Signature("getScheme", "URL", (), "string", network.scheme),
    Signature("getHost", "URL", (), "string", network.host),
    Signature("getHostname", "URL", (), "string", network.hostname),
    Signature("getPort", "URL", (), "string", network.port),
    Signature("getEscapedPath", "URL", (), "string", network.escaped_path),
    Signature("getQuery", "URL", (), "query", network.query),
    Signature("ip", "", ("string",), "IP", network.ip),
    Signature("isIP", "", ("string",), "bool", network.is_ip),
    Signature("ip.isCanonical", "", ("string",), "bool", network.ip_is_canonical),
    Signature("family", "IP", (), "int", network.family),
    Signature("isUnspecified", "IP", (), "bool", network.is_unspecified),
    Signature("isLoopback", "IP", (), "bool", network.is_loopback),
    Signature("isLinkLocalMulticast", "IP", (), "bool", network.is_link_local_multicast),
    Signature("isLinkLocalUnicast", "IP", (), "bool", network.is_link_local_unicast),
    Signature("isGlobalUnicast", "IP", (), "bool", network.is_global_unicast),
    Signature("cidr", "", ("string",), "CIDR", network.cidr),
    Signature("isCIDR", "", ("string",), "bool", network.is_cidr),
    Signature("containsIP", "CIDR", ("IP",), "bool", network.contains_ip),
    Signature("containsIP", "CIDR", ("string",), "bool", network.contains_ip_text),
    Signature("containsCIDR", "CIDR", ("CIDR",), "bool", network.contains_cidr),
    Signature("containsCIDR", "CIDR", ("string",), "bool", network.contains_cidr_text),
    Signature("ip", "CIDR", (), "IP", network.cidr_ip),
    Signature("masked", "CIDR", (), "CIDR", network.masked),
    Signature("prefixLength", "CIDR", (), "int", network.prefix_length),
)
