"""Python names for JSON names."""

import builtins
import keyword
import re
from collections.abc import Collection
from typing import Final

_AT_ROOT: Final = frozenset({"tuple", "str", "int", "float", "bool"})
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z0-9])")


def python_name(wire: str, taken: Collection[str]) -> str:
    """`podIP` is `pod_ip`; a keyword or a name that the source needs gets a trailing underscore."""
    name = "_".join(part.lower() for part in _WORD.findall(wire)) or "value"
    if name[0].isdigit():
        name = f"n{name}"
    if keyword.iskeyword(name) or name in ("self", "field", "datetime", "frozen") or name in _AT_ROOT:
        name = f"{name}_"
    while name in taken:
        name = f"{name}_"
    return name


def class_name(wire: str) -> str:
    """`workerGroupSpec` is `WorkerGroupSpec`; a name that the source needs gets `Value` appended."""
    name = "".join(part[:1].upper() + part[1:] for part in re.findall(r"[A-Za-z]+|\d+", wire)) or "Value"
    if name[0].isdigit():
        name = f"N{name}"
    if name in _TAKEN_CLASSES or hasattr(builtins, name) or keyword.iskeyword(name):
        name = f"{name}Value"
    return name


def plural_of(kind: str) -> str:
    """The lower-case English plural: `sites` for Site, `policies` for Policy, `boxes` for Box."""
    name = kind.lower()
    if re.search(r"(s|x|z|ch|sh)$", name):
        return f"{name}es"
    if re.search(r"[^aeiou]y$", name):
        return f"{name[:-1]}ies"
    return f"{name}s"


def singular(name: str) -> str:
    """`Ports` is `Port`; `Item` is appended to a name without a final s."""
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    if name.endswith("s") and not name.endswith(("ss", "us", "is")) and len(name) > 2:
        return name[:-1]
    return f"{name}Item"


_TAKEN_CLASSES: Final = frozenset(
    {"Any", "Annotated", "Column", "Literal", "Mapping", "Object", "Quantity", "Rule", "Scale", "Schema"}
)
