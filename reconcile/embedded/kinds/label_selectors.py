"""The rules for label selectors, which objects of many kinds have."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from informers.apimachinery.label_selectors import selector_matches
from informers.apimachinery.name_rules import label_key_faults, label_value_faults
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_invalid, value_required

_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


def selector_causes(
    selector: Mapping[str, Any] | None, path: str, *, any_value: bool = False
) -> Iterator[FieldCause]:
    """The faults of a label selector (ValidateLabelSelector); an absent one has none.

    With `any_value`, values of expressions need not be valid values of labels, as in updates of objects that
    had such values before.
    """
    if selector is None:
        return
    for key, value in (selector.get("matchLabels") or {}).items():
        where = f"{path}.matchLabels"
        yield from (value_invalid(where, key, fault) for fault in label_key_faults(key))
        yield from (value_invalid(where, value, fault) for fault in label_value_faults(value))
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        yield from _requirement_causes(requirement, f"{path}.matchExpressions[{index}]", any_value)


def _requirement_causes(requirement: Mapping[str, Any], path: str, any_value: bool) -> Iterator[FieldCause]:
    operator, key = requirement.get("operator") or "", requirement.get("key") or ""
    values = requirement.get("values") or ()
    if operator in _WITH_VALUES and not values:
        yield value_required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield value_forbidden(f"{path}.values", why)
    elif operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        yield value_invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from (value_invalid(f"{path}.key", key, fault) for fault in label_key_faults(key))
    for index, value in enumerate(() if any_value else values):
        where = f"{path}.values[{index}]"
        yield from (value_invalid(where, value, fault) for fault in label_value_faults(value))


def has_odd_value(selector: Mapping[str, Any] | None) -> bool:
    """Whether an expression has a value that no label can have."""
    expressions = (selector or {}).get("matchExpressions") or ()
    return any(label_value_faults(value) for one in expressions for value in one.get("values") or ())


def is_parsable(selector: Mapping[str, Any] | None) -> bool:
    """Whether the server can select by it (LabelSelectorAsSelector of apimachinery)."""
    return not any(selector_causes(selector, ""))


def is_empty(selector: Mapping[str, Any]) -> bool:
    """Whether it has no requirement, and so selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a parsable selector selects these labels; an absent one selects nothing."""
    return selector is not None and selector_matches(selector, labels)
