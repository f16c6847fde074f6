"""What an update changes: nothing at all, or what its generation counts."""

from collections.abc import Mapping
from typing import Any

from reconcile.embedded.log import Stored
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import to_storage


def changes_nothing(
    resource: ServedResource,
    stored: Stored,
    obj: dict[str, Any],
    old: Mapping[str, Any],
    empty_metadata: Mapping[str, Any] | None = None,
) -> bool:
    """Whether `obj` and its `empty_metadata` equal what is stored, which this version shows as `old`.

    For custom resources the stored forms are compared: a write without changes still drops fields that only
    the storage version has, and moves the object to a new storage version or schema.
    """
    if empty_metadata != stored.empty_metadata:
        return False
    if empty_metadata and obj != old:
        return False  # a real server keeps the times only of an object that equals the one that it shows
    if not resource.custom or (stored.encoded_by is resource and resource.storage_schema is None):
        return same_but_for_times(obj, old)
    return same_but_for_times(to_storage(resource, obj), stored.decode())


def same_but_for_times(obj: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether at most times of managedFields differ."""
    if obj == old:
        return True
    if {**obj, "metadata": None} != {**old, "metadata": None}:
        return False
    return _timeless(obj["metadata"]) == _timeless(old["metadata"])


def _timeless(metadata: Mapping[str, Any]) -> dict[str, Any]:
    entries = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or ()
    ]
    kept = {
        name: value for name, value in metadata.items() if name not in ("managedFields", "resourceVersion")
    }
    return {**kept, "managedFields": entries}


def bump_generation(
    resource: ServedResource,
    obj: dict[str, Any],
    old: Mapping[str, Any],
    subresource: str,
    *,
    by_form: bool = False,
) -> None:
    """Increase the generation if anything but metadata (and a separate status) has changed.

    `by_form` says that something has, if only from 1 to 1.0.
    """
    if not resource.has_generation:
        return
    hidden = {"metadata": None, "status": None} if resource.has_status else {"metadata": None}
    followed = () if subresource == "status" else resource.generation_follows
    if (
        by_form
        or {**obj, **hidden} != {**old, **hidden}
        or any(obj["metadata"].get(name) != old["metadata"].get(name) for name in followed)
    ):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
