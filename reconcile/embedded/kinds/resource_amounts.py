"""Resource lists (`cpu`, `memory`, `ex.io/gpu`): what their names mean, and sums of their amounts."""

from collections.abc import Iterable, Mapping
from decimal import ROUND_UP, Decimal
from typing import Any, Final, TypeAlias

from informers.apimachinery.name_rules import label_key_faults
from informers.apimachinery.quantities import QuantityFormat, parse_quantity, quantity_text

Amounts: TypeAlias = Mapping[str, Any]
"""Quantities by the names of resources."""
Parsed: TypeAlias = dict[str, tuple[Decimal, QuantityFormat]]

_HUGE_PAGES: Final = "hugepages-"
_MILLI: Final = Decimal("0.001")
_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED: Final = frozenset(
    {
        "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets",
        "services", "services.loadbalancers", "services.nodeports",
    }
)  # fmt: skip
# standardResources in pkg/apis/core/helper/helpers.go.
_STANDARD: Final = frozenset(
    {
        *_OF_CONTAINERS, *_COUNTED, "storage", "requests.cpu", "requests.memory", "requests.storage",
        "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
    }
)  # fmt: skip


# --- names ------------------------------------------------------------------------------------


def is_huge_pages(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def is_standard(name: str) -> bool:
    """Whether a name without a domain is known, here or in a quota."""
    return name in _STANDARD or is_huge_pages(name) or name.startswith(f"requests.{_HUGE_PAGES}")


def is_standard_of_containers(name: str) -> bool:
    return name in _OF_CONTAINERS or is_huge_pages(name)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a device plugin may offer it: a qualified name of a domain of its own."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not label_key_faults(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def is_whole(name: str) -> bool:
    """Whether only whole numbers of it make sense."""
    return name in _COUNTED or is_extended(name)


def is_of_pods(name: str) -> bool:
    """Whether a pod as a whole may ask for it."""
    return name in ("cpu", "memory") or is_huge_pages(name)


# --- amounts ----------------------------------------------------------------------------------


def parsed(amounts: Amounts | None) -> Parsed:
    """The amounts that are quantities; what else stands there is refused as malformed."""
    known: Parsed = {}
    for name, amount in (amounts or {}).items():
        try:
            known[name] = parse_quantity(str(amount))
        except ValueError:
            continue
    return known


def texts(amounts: Parsed) -> dict[str, str]:
    return {name: quantity_text(*amount) for name, amount in amounts.items()}


def rounded_up(amount: Any) -> Any:
    """The quantity without anything finer than a thousandth (SetDefaults_ResourceList)."""
    try:
        value, form = parse_quantity(str(amount))
    except ValueError:
        return amount
    rounded = value.quantize(_MILLI, rounding=ROUND_UP) if value % _MILLI else value
    return amount if rounded == value else quantity_text(rounded, form)


def added(amounts: Iterable[Parsed]) -> Parsed:
    total: Parsed = {}
    for one in amounts:
        for name, (value, form) in one.items():
            before, kept = total.get(name, (Decimal(0), form))
            total[name] = (before + value, kept if before else form)
    return total


def greatest(amounts: Iterable[Parsed]) -> Parsed:
    """The largest amount of each resource."""
    most: Parsed = {}
    for one in amounts:
        for name, amount in one.items():
            if name not in most or amount[0] > most[name][0]:
                most[name] = amount
    return most
