"""Selectors of reads: labels or fields that must be equal, text, or the selector of an object."""

from collections.abc import Mapping

from informers.apimachinery.field_selectors import field_selector_text, parse_field_selector
from informers.apimachinery.label_selectors import Requirement, requirement
from informers.informer_selection import label_requirements
from reconcile.models import LabelSelector

Fields = Mapping[str, str] | str | None
"""A field selector: fields that must be equal, or text (`status.phase=Running`)."""
Labels = Fields | LabelSelector
"""A label selector: labels that must be equal, text (`a=b,c in (d,e),!f`), or the selector of an object."""


def parse_labels(labels: Labels) -> tuple[Requirement, ...]:
    """The requirements of a selector, none for None. Raises ValueError as an API server refuses it."""
    if labels is None:
        return ()
    if isinstance(labels, LabelSelector):
        return labels.requirements()
    if isinstance(labels, str):
        return label_requirements(labels)
    return tuple(requirement(key, "in", (value,)) for key, value in labels.items())


def label_text(labels: Labels) -> str:
    """A label selector in query form. Raises ValueError as `parse_labels` does."""
    parse_labels(labels)
    if isinstance(labels, LabelSelector):
        return labels.text()
    if isinstance(labels, str):
        return labels
    return ",".join(f"{key}={value}" for key, value in (labels or {}).items())


def field_text(fields: Fields) -> str:
    """A field selector in query form. Raises ValueError for a text that is not one."""
    if isinstance(fields, str):
        parse_field_selector(fields)
        return fields
    return field_selector_text(fields or {})
