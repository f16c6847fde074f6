"""The class that an object gets which names none: a StorageClass or an IngressClass."""

from collections.abc import Iterable

from reconcile.embedded.kinds.built_in_kind import Object


def default_class(classes: Iterable[Object], *annotations: str) -> str | None:
    """The name of the newest class that an annotation marks; of equally old ones the first by name."""
    defaults = [one["metadata"] for one in classes if _is_marked(one, annotations)]
    newest = max((metadata["creationTimestamp"] for metadata in defaults), default="")
    names = (metadata["name"] for metadata in defaults if metadata["creationTimestamp"] == newest)
    return min(names, default=None)


def _is_marked(one: Object, annotations: Iterable[str]) -> bool:
    held = one["metadata"].get("annotations") or {}
    return any(held.get(name) == "true" for name in annotations)
