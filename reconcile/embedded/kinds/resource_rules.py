"""What names and amounts of compute resources must satisfy (ValidateResourceQuantityValue and others)."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from informers.apimachinery.name_rules import label_key_faults
from informers.apimachinery.quantities import quantity_value
from reconcile.embedded.kinds.resource_amounts import (
    is_extended,
    is_native,
    is_standard,
    is_standard_of_containers,
    is_whole,
)
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid

_IN_NO_QUOTA: Final = "storage"


def is_quota_name(name: str) -> bool:
    """Whether a quota knows the resource without a domain."""
    return is_standard(name) and name != _IN_NO_QUOTA


def resource_name_causes(name: str, path: str) -> list[FieldCause]:
    """The faults of the name of a resource."""
    faults = label_key_faults(name)
    if not faults and "/" not in name and not is_standard(name):
        faults = ["must be a standard resource type or fully qualified"]
    return [value_invalid(path, name, fault) for fault in faults]


def container_resource_causes(name: str, path: str) -> list[FieldCause]:
    """The faults of the name of a resource of a container."""
    causes = resource_name_causes(name, path)
    if "/" not in name:
        if not is_standard_of_containers(name):
            causes.append(value_invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        causes.append(value_invalid(path, name, "doesn't follow extended resource name standard"))
    return causes


def quota_resource_causes(name: str, path: str) -> list[FieldCause]:
    """The faults of the name of a resource that a quota limits."""
    causes = resource_name_causes(name, path)
    if "/" not in name and not is_quota_name(name):
        causes.append(value_invalid(path, name, "must be a standard resource for quota"))
    return causes


def amount_causes(name: str, quantity: object, path: str) -> Iterator[FieldCause]:
    """The faults of an amount of the resource `name`."""
    value = amount(quantity)
    yield from not_negative_causes(quantity, path)
    if is_whole(name) and value != value.to_integral_value():
        yield value_invalid(path, quantity, "must be an integer")


def not_negative_causes(quantity: object, path: str) -> Iterator[FieldCause]:
    if amount(quantity) < 0:
        yield value_invalid(path, quantity, "must be greater than or equal to 0")


def positive_causes(quantity: object, path: str) -> Iterator[FieldCause]:
    if amount(quantity) <= 0:
        yield value_invalid(path, quantity, "must be greater than zero")


def amount(quantity: object) -> Decimal:
    """The value of a quantity of a decoded object; an absent one is 0."""
    return Decimal(0) if quantity is None else quantity_value(str(quantity))


def amount_in(amounts: Mapping[str, Any] | None, name: str) -> Decimal:
    return amount((amounts or {}).get(name))
