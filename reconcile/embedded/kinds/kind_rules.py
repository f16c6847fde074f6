"""The shape of what is particular to one built-in kind."""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.names import NameCheck, subdomain_faults

Object = dict[str, Any]
Prepare = Callable[[Object, Object | None], None]
Validate = Callable[[Object, Object | None], list[FieldCause]]
Warn = Callable[[Object], list[str]]


def leave(obj: Object, old: Object | None) -> None:
    """Nothing to prepare."""


def accept(obj: Object, old: Object | None) -> list[FieldCause]:
    """Nothing to object to."""
    return []


def say_nothing(obj: Object) -> list[str]:
    """Nothing to warn of."""
    return []


@frozen
class KindRules:
    """`prepare` completes an object in place before it is checked; `validate` names its faults.

    `warn` is what its writer is to be told of an object that is taken. `checks` is how often the real
    server names a fault of labels, annotations and owners in an update.
    """

    prepare: Prepare = leave
    validate: Validate = accept
    check_name: NameCheck = subdomain_faults
    warn: Warn = say_nothing
    checks: int = 3


def default(spec: Object, **values: Any) -> None:
    """Set the fields that are missing or null."""
    for field, value in values.items():
        if spec.get(field) is None:
            spec[field] = value


def fixed(obj: Object, old: Object | None, *fields: str) -> list[FieldCause]:
    """The causes for fields that differ from the old ones and may not."""
    if old is None:
        return []
    return [
        FieldCause("FieldValueInvalid", "Invalid value: field is immutable", field)
        for field in fields
        if obj.get(field) != old.get(field)
    ]
