"""Whether an object is selected by an informer's selectors."""

from collections.abc import Callable

from informers.apimachinery.field_selectors import FieldTerm, parse_field_selector, text_at
from informers.apimachinery.label_selectors import Requirement, matches_labels, parse_label_selector
from informers.apimachinery.shard_selectors import parse_shard_selector
from informers.snapshot import Snapshot

Matches = Callable[[Snapshot], bool]


def selects(labels: str = "", fields: str = "", shard: str = "") -> Matches:
    """What the selectors choose together. Raises ValueError, which names one that servers refuse, and why."""
    requirements = label_requirements(labels)
    try:
        terms = parse_field_selector(fields)
    except ValueError as error:
        raise ValueError(f"{fields!r} is not a field selector: {error}") from None
    ranges = parse_shard_selector(shard)

    def matches(snapshot: Snapshot) -> bool:
        return (
            (not requirements or matches_labels(requirements, snapshot.labels))
            and all(_meets(snapshot, term) for term in terms)
            and (not ranges or any(r.contains(snapshot.uid, snapshot.key.namespace) for r in ranges))
        )

    return matches


def label_requirements(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector. Raises ValueError, which names it, for any other text."""
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a label selector: {error}") from None


def _meets(snapshot: Snapshot, term: FieldTerm) -> bool:
    # Names are asked for at every event: for them the object is not decoded.
    if term.path == "metadata.name":
        return term.matches(snapshot.key.name)
    if term.path == "metadata.namespace":
        return term.matches(snapshot.key.namespace)
    return term.matches(text_at(snapshot.to_dict(), term.path))
