"""The functions that Kubernetes adds to CEL, for the type checker and for running rules.

The type checker has types for quantities, versions, formats, URLs, IPs and CIDRs. When a rule runs they are
maps, the one form in which CEL and Python can pass these values.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import islice, pairwise, product
from typing import Any, Final

import msgspec
from attrs import frozen
from cel_expr_python import cel
from semver import Version

from informers.apimachinery.quantities import canonical_quantity, quantity_value
from reconcile.embedded.schema.cel import named_formats, network
from reconcile.embedded.schema.cel.cel_values import duration_of, timestamp_of
from reconcile.embedded.schema.cel.network import Opaque
from reconcile.embedded.schema.formats import succeeds
from reconcile.embedded.schema.json_values import is_number
from reconcile.embedded.schema.patterns import PatternError, compile_pattern, search_cost

MAX_RANGE: Final = 10_000
"""The longest list that `lists.range` returns, which is the longest loop of a rule."""

MAX_VISITS: Final = 1_000_000
"""The items and characters that functions in Python may read for one evaluation of a rule."""

BUDGET_EXCEEDED: Final = "Iteration budget exceeded"
"""The error of an evaluation that takes too many steps, as the CEL library words it."""

AUTHORIZATION: Final = "kubernetes.authorization"
"""Where the types of `authorizer` are."""

_EXTENSIONS: Final = ("sets", "optional", "two-var-comprehensions", "lists")
_INT_RANGE: Final = range(-(2**63), 2**63)
_PRE_RELEASE: Final = re.compile(r"[+-]")


@frozen
class Signature:
    """One overload; `target` is empty for a function that is not a method."""

    name: str
    target: str
    arguments: tuple[str, ...]
    result: str
    run: Callable[..., Any]

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.target, *self.arguments) if self.target else self.arguments


# --- as rules are checked ---------------------------------------------------------------------

_Type = dict[str, Any]
_ORDERED: Final = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_NUMBERS: Final = ("int", "uint", "double")
_RELATIONS: Final = ("_<_", "_<=_", "_>_", "_>=_")
_ANY: Final[_Type] = {"type_name": "T", "is_type_param": True}


def _named(name: str) -> _Type:
    return {"type_name": name}


def _list(of: _Type) -> _Type:
    return {"type_name": "list", "params": [of]}


def _optional(of: _Type) -> _Type:
    return {"type_name": "optional_type", "params": [of]}


def _checked(name: str) -> _Type:
    if name == "query":
        return {"type_name": "map", "params": [_named("string"), _list(_named("string"))]}
    if name == "strings":
        return _list(_named("string"))
    return _named(name if name in _TYPES else f"kubernetes.{name}")


def _overload(arguments: tuple[_Type, ...], result: _Type, target: _Type | None = None) -> _Type:
    made: _Type = {"args": list(arguments), "return": result}
    return made if target is None else {**made, "target": target}


def checking_config(*, binds: bool, patches: bool = False) -> str:
    """The configuration of the checker, as the CEL library reads it; `patches` for those that make some.

    Numbers of different types can be compared, which the library's own checker refuses.
    """
    functions: dict[str, list[_Type]] = {}
    for signature in _SIGNATURES:
        target = _checked(signature.target) if signature.target else None
        arguments = tuple(_checked(name) for name in signature.arguments)
        made = _overload(arguments, _checked(signature.result), target)
        functions.setdefault(signature.name, []).append(made)
    for name, overloads in (*_generic_overloads(), *_authorization_overloads()):
        functions.setdefault(name, []).extend(overloads)
    if patches:
        functions["jsonpatch.escapeKey"] = [_overload((_named("string"),), _named("string"))]
    listed = [
        {"name": name, "overloads": [{"id": f"{name}-{at}", **made} for at, made in enumerate(overloads)]}
        for name, overloads in functions.items()
    ]
    config = {
        "name": "kubernetes",
        "stdlib": {"exclude_functions": [{"name": relation} for relation in _RELATIONS]},
        "extensions": extensions(binds=binds),
        "functions": listed,
    }
    return msgspec.json.encode(config).decode()


def extensions(*, binds: bool) -> list[dict[str, Any]]:
    """The parts of the CEL library that Kubernetes has too; `cel.bind` is only for our own use."""
    more = ("bindings",) if binds else ()
    return [{"name": "strings", "version": 2}, *({"name": name} for name in (*_EXTENSIONS, *more))]


def _generic_overloads() -> Iterator[tuple[str, list[_Type]]]:
    flag, number, text = _named("bool"), _named("int"), _named("string")
    pairs = (*product(_NUMBERS, _NUMBERS), *((kind, kind) for kind in _ORDERED if kind not in _NUMBERS))
    for relation in _RELATIONS:
        yield relation, [_overload((_named(left), _named(right)), flag) for left, right in pairs]
    yield "isSorted", [_overload((), flag, _list(_named(kind))) for kind in _ORDERED]
    for name in ("min", "max"):
        yield name, [_overload((), _named(kind), _list(_named(kind))) for kind in _ORDERED]
    yield "sum", [_overload((), _named(kind), _list(_named(kind))) for kind in (*_NUMBERS, "duration")]
    in_list = _overload((_ANY,), number, _list(_ANY))
    for name in ("indexOf_", "lastIndexOf_"):
        in_text = (_overload((text,), number, text), _overload((text, number), number, text))
        yield name, [in_list, *in_text]
    of_format = _named("kubernetes.Format")
    yield "validate", [_overload((text,), _optional(_list(text)), of_format)]
    yield "format.named", [_overload((text,), _optional(of_format))]


def _authorization_overloads() -> Iterator[tuple[str, list[_Type]]]:
    """What the variable `authorizer` of admission expressions has."""
    text, flag = _named("string"), _named("bool")
    authorizer, of_path, of_group, of_resource, decision = (
        _named(f"{AUTHORIZATION}.{name}")
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    )
    yield "path", [_overload((text,), of_path, authorizer)]
    yield "group", [_overload((text,), of_group, authorizer)]
    yield "serviceAccount", [_overload((text, text), authorizer, authorizer)]
    yield "resource", [_overload((text,), of_resource, of_group)]
    for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector"):
        yield name, [_overload((text,), of_resource, of_resource)]
    yield "check", [_overload((text,), decision, checked) for checked in (of_path, of_resource)]
    for name, result in (("errored", flag), ("error", text), ("allowed", flag), ("reason", text)):
        yield name, [_overload((), result, decision)]


# --- as rules run -----------------------------------------------------------------------------

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


def running_functions() -> list[cel.FunctionDecl]:
    overloads: dict[str, dict[str, cel.Overload]] = {}
    for signature in (*_SIGNATURES, *_RUN_ONLY):
        kinds = [name if name in _TYPES else "map" for name in signature.parameters]
        key = f"kubernetes_{signature.name}_{'_'.join(kinds)}_{bool(signature.target)}"
        overloads.setdefault(signature.name, {})[key] = cel.Overload(
            key,
            return_type=_TYPES.get(signature.result, _TYPES["map"]),
            parameters=[_TYPES[kind] for kind in kinds],
            is_member=bool(signature.target),
            impl=signature.run,
        )
    return [cel.FunctionDecl(name, list(found.values())) for name, found in overloads.items()]


def handed_back(value: Any) -> Any:
    """A value in the types that CEL accepts: it passes times to Python in types that it does not accept."""
    if isinstance(value, timedelta):
        return duration_of(value)
    if isinstance(value, datetime):
        return timestamp_of(value)
    if isinstance(value, Mapping):
        return {name: handed_back(member) for name, member in value.items()}
    if isinstance(value, bytearray):
        return bytes(value)
    return [handed_back(item) for item in value] if isinstance(value, list) else value


# --- what they cost -----------------------------------------------------------------------------


class _CelMeter(threading.local):
    # Each thread evaluates one rule at a time.
    left: int = MAX_VISITS


_METER: Final = _CelMeter()


def reset_meter() -> None:
    """Begin to count what the functions read in one evaluation."""
    _METER.left = MAX_VISITS


def _charge(units: int) -> None:
    _METER.left -= units
    if _METER.left < 0:
        raise ValueError(BUDGET_EXCEEDED)


# --- lists ------------------------------------------------------------------------------------


def _is_sorted(items: list[Any]) -> bool:
    _charge(len(items))
    return all(earlier <= later for earlier, later in pairwise(items))


def _sum(items: list[Any]) -> Any:
    _charge(len(items))
    if items and all(isinstance(item, timedelta) for item in items):
        return handed_back(sum(items, timedelta()))
    if not all(is_number(item) for item in items):
        raise ValueError("sum is for numbers and durations")
    return sum(items)


def _extreme(choose: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    _charge(len(items))
    if not items:
        raise ValueError(f"{choose.__name__} called on empty list")
    return handed_back(choose(items))


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _index(items: list[Any], arguments: list[Any], step: int = 1) -> int:
    _charge(len(items))
    return next((at for at in range(len(items))[::step] if _equal(items[at], arguments[0])), -1)


def _place(text: str, arguments: list[Any]) -> int:
    part, start = arguments[0], arguments[1] if len(arguments) > 1 else 0
    return text.find(part, _within(text, start))


def _last_place(text: str, arguments: list[Any]) -> int:
    part, start = arguments[0], arguments[1] if len(arguments) > 1 else len(text)
    return text.rfind(part, 0, _within(text, start) + len(part))


def _within(text: str, start: int) -> int:
    if not 0 <= start <= len(text):
        raise ValueError(f"index out of range: {start}")
    return start


def _range(length: int) -> list[int]:
    if length > MAX_RANGE:
        raise ValueError(f"lists.range makes lists of at most {MAX_RANGE} here")
    return list(range(length))


def _map_of(pairs: list[Any]) -> dict[Any, Any]:
    _charge(len(pairs))
    return {name: handed_back(member) for name, member in pairs}


def _merged(maps: list[Any]) -> dict[Any, Any]:
    _charge(len(maps))
    made: dict[Any, Any] = {}
    for entry in maps:
        for name, member in entry.items():
            if name in made:
                raise ValueError(f"insert failed: key '{name}' already exists")
            made[name] = handed_back(member)
    return made


# --- regular expressions ----------------------------------------------------------------------


def _find(text: str, pattern: str) -> str:
    return next(_found(text, pattern), "")


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = _found(text, pattern)
    return list(found if limit < 0 else islice(found, limit))


def _found(text: str, pattern: str) -> Iterator[str]:
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:
        raise ValueError(f"Illegal regex: {error}") from None
    if compiled is None:
        raise ValueError("the library google-re2 is not installed")
    _charge(search_cost(compiled, text))
    return (match[0] for match in compiled.finditer(text))


# --- quantities and versions ------------------------------------------------------------------


def _quantity(text: str) -> Opaque:
    return {"quantity": canonical_quantity(str(quantity_value(text)))}


def _worth(quantity: Opaque | int) -> Decimal:
    return Decimal(quantity) if isinstance(quantity, int) else quantity_value(quantity["quantity"])


def _compare(left: Opaque, right: Opaque) -> int:
    # Of versions too: when rules run, both are maps.
    if "semver" in left:
        return _held_version(left).compare(_held_version(right))
    return (_worth(left) > _worth(right)) - (_worth(left) < _worth(right))


def _is_integer(quantity: Opaque) -> bool:
    worth = _worth(quantity)
    return worth == worth.to_integral_value() and int(worth) in _INT_RANGE


def _as_integer(quantity: Opaque) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return int(_worth(quantity))


def _add(left: Opaque, right: Opaque | int) -> Opaque:
    return _quantity(format(_worth(left) + _worth(right), "f"))


def _subtract(left: Opaque, right: Opaque | int) -> Opaque:
    return _quantity(format(_worth(left) - _worth(right), "f"))


def _semver(text: str, normalise: bool = False) -> Opaque:
    # `normalise` accepts a leading `v`, leading zeros, and versions of one or two numbers.
    return {"semver": str(Version.parse(_normalised(text) if normalise else text))}


def _held_version(version: Opaque) -> Version:
    return Version.parse(version["semver"])


def _normalised(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and _PRE_RELEASE.search(parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join((*parts, "0", "0")[:3])


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1] and rest[0] in "0123456789" else f"0{rest}"


# --- the table --------------------------------------------------------------------------------


def _part(held: Callable[[Opaque], Any], name: str) -> Callable[[Opaque], Any]:
    return lambda value: getattr(held(value), name)


_address_part = partial(_part, network.held_address)
_url_part = partial(_part, network.held_url)
_version_part = partial(_part, _held_version)

_SIGNATURES: Final = (
    Signature("find", "string", ("string",), "string", _find),
    Signature("findAll", "string", ("string",), "strings", _find_all),
    Signature("findAll", "string", ("string", "int"), "strings", _find_all),
    Signature("quantity", "", ("string",), "Quantity", _quantity),
    Signature("isQuantity", "", ("string",), "bool", partial(succeeds, _quantity)),
    Signature("sign", "Quantity", (), "int", lambda a: (_worth(a) > 0) - (_worth(a) < 0)),
    Signature("isInteger", "Quantity", (), "bool", _is_integer),
    Signature("asInteger", "Quantity", (), "int", _as_integer),
    Signature("asApproximateFloat", "Quantity", (), "double", lambda quantity: float(_worth(quantity))),
    *(
        Signature(name, kind, (kind,), result, run)
        for kind in ("Quantity", "Semver")
        for name, result, run in (
            ("compareTo", "int", _compare),
            ("isGreaterThan", "bool", lambda a, b: _compare(a, b) > 0),
            ("isLessThan", "bool", lambda a, b: _compare(a, b) < 0),
        )
    ),
    *(Signature("add", "Quantity", (other,), "Quantity", _add) for other in ("Quantity", "int")),
    *(Signature("sub", "Quantity", (other,), "Quantity", _subtract) for other in ("Quantity", "int")),
    Signature("semver", "", ("string",), "Semver", _semver),
    Signature("semver", "", ("string", "bool"), "Semver", _semver),
    Signature("isSemver", "", ("string",), "bool", partial(succeeds, _semver)),
    Signature("isSemver", "", ("string", "bool"), "bool", partial(succeeds, _semver)),
    *(Signature(name, "Semver", (), "int", _version_part(name)) for name in ("major", "minor", "patch")),
    Signature("url", "", ("string",), "URL", network.url),
    Signature("isURL", "", ("string",), "bool", partial(succeeds, network.url)),
    Signature("getScheme", "URL", (), "string", _url_part("scheme")),
    Signature("getHost", "URL", (), "string", lambda url: _url_part("netloc")(url).rpartition("@")[2]),
    Signature("getHostname", "URL", (), "string", lambda url: _url_part("hostname")(url) or ""),
    Signature("getPort", "URL", (), "string", network.port),
    Signature("getEscapedPath", "URL", (), "string", _url_part("path")),
    Signature("getQuery", "URL", (), "query", network.query),
    Signature("ip", "", ("string",), "IP", network.ip),
    Signature("isIP", "", ("string",), "bool", partial(succeeds, network.ip)),
    Signature("ip.isCanonical", "", ("string",), "bool", lambda text: network.ip(text)["ip"] == text),
    Signature("family", "IP", (), "int", _address_part("version")),
    Signature("isUnspecified", "IP", (), "bool", _address_part("is_unspecified")),
    Signature("isLoopback", "IP", (), "bool", _address_part("is_loopback")),
    Signature("isLinkLocalMulticast", "IP", (), "bool", network.is_link_local_multicast),
    Signature("isLinkLocalUnicast", "IP", (), "bool", _address_part("is_link_local")),
    Signature("isGlobalUnicast", "IP", (), "bool", network.is_global_unicast),
    Signature("cidr", "", ("string",), "CIDR", network.cidr),
    Signature("isCIDR", "", ("string",), "bool", partial(succeeds, network.cidr)),
    *(Signature("containsIP", "CIDR", (other,), "bool", network.contains_ip) for other in ("IP", "string")),
    *(
        Signature("containsCIDR", "CIDR", (other,), "bool", network.contains_cidr)
        for other in ("CIDR", "string")
    ),
    Signature("ip", "CIDR", (), "IP", lambda cidr: network.ip(cidr["cidr"].partition("/")[0])),
    Signature("masked", "CIDR", (), "CIDR", lambda cidr: {"cidr": str(network.held_network(cidr))}),
    Signature("prefixLength", "CIDR", (), "int", _part(network.held_network, "prefixlen")),
    *(
        Signature(f"format.{name}", "", (), "Format", partial(dict, format=name))
        for name in named_formats.NAMED_FORMATS
    ),
)

_RUN_ONLY: Final = (
    Signature("isSorted", "list", (), "bool", _is_sorted),
    Signature("sum", "list", (), "dyn", _sum),
    Signature("min", "list", (), "dyn", partial(_extreme, min)),
    Signature("max", "list", (), "dyn", partial(_extreme, max)),
    Signature("indexOf_", "list", ("list",), "int", _index),
    Signature("indexOf_", "string", ("list",), "int", _place),
    Signature("lastIndexOf_", "list", ("list",), "int", partial(_index, step=-1)),
    Signature("lastIndexOf_", "string", ("list",), "int", _last_place),
    Signature("lists.range_", "", ("int",), "list", _range),
    Signature("transformMap_", "list", (), "map", _map_of),
    Signature("transformMapEntry_", "list", (), "map", _merged),
    Signature("format.named_", "", ("string",), "list", named_formats.named),
    Signature("validate_", "Format", ("string",), "list", named_formats.validate),
)
"""Functions whose types for the checker no signature can express, and those that `rewriting` calls."""
