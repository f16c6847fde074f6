"""Owner references: which object owns another, so that the garbage collector deletes both."""

from typing import TypeVar

from reconcile.models import Object, OwnerReference, kind_of

__all__ = [
    "AlreadyOwned",
    "can_own",
    "controller_of",
    "is_owned",
    "with_owner",
    "without_owner",
]

O = TypeVar("O", bound=Object)  # noqa: E741


class AlreadyOwned(Exception):
    """An object is controlled by another one already; `owner` is the reference to that."""

    def __init__(self, obj: Object, owner: OwnerReference) -> None:
        super().__init__(
            f"{type(obj).__name__} {str(obj.key)!r} is controlled by {owner.kind} {owner.name!r} already"
        )
        self.owner = owner


def can_own(owner: Object, obj: Object) -> bool:
    """Whether the garbage collector respects such a reference.

    A namespaced owner owns objects of its own namespace alone: those of another are collected. An owner
    without a namespace may own anything.
    """
    if not kind_of(owner).resource.namespaced:
        return True
    return kind_of(obj).resource.namespaced and owner.namespace == obj.namespace


def with_owner(obj: O, owner: Object, *, controller: bool = False) -> O:
    """The same object, owned by `owner`; as its `controller`, which also holds up a foreground deletion.

    A reference to an owner of the same group, kind and name is replaced in place, whatever version of the
    kind it names, so the function is idempotent. Raises ValueError for an owner that was not read or cannot
    own it (see `can_own`), and AlreadyOwned.
    """
    if not owner.uid:
        raise ValueError(f"{type(owner).__name__} {str(owner.key)!r} was not read, so it cannot own anything")
    if not can_own(owner, obj):
        raise ValueError(
            f"{type(owner).__name__} {str(owner.key)!r} cannot own {type(obj).__name__} {str(obj.key)!r}: "
            f"owners with a namespace own objects of that namespace alone"
        )
    mine = _reference(owner, controller)
    present = obj.metadata.owner_references
    other = next((owner for owner in present if owner.controller and not _same(owner, mine)), None)
    if controller and other is not None:
        raise AlreadyOwned(obj, other)
    replaced = (mine if _same(owner, mine) else owner for owner in present)
    return obj.with_metadata(owner_references=tuple(dict.fromkeys((*replaced, mine))))


def without_owner(obj: O, owner: Object) -> O:
    """The same object without any reference to `owner` (by group, kind and name)."""
    mine = _reference(owner, controller=False)
    rest = tuple(other for other in obj.metadata.owner_references if not _same(other, mine))
    return obj.with_metadata(owner_references=rest)


def is_owned(obj: Object, owner: Object) -> bool:
    """Whether `owner` owns it: by uid, so that a namesake of a former owner owns nothing."""
    return bool(owner.uid) and any(reference.uid == owner.uid for reference in obj.metadata.owner_references)


def controller_of(obj: Object) -> OwnerReference | None:
    """The owner that controls the object, if any."""
    return next((owner for owner in obj.metadata.owner_references if owner.controller), None)


def _reference(owner: Object, controller: bool) -> OwnerReference:
    resource = kind_of(owner).resource
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.name,
        uid=owner.uid,
        controller=True if controller else None,
        block_owner_deletion=True if controller else None,
    )


def _same(one: OwnerReference, other: OwnerReference) -> bool:
    """Whether group, kind and name are equal; references may name different versions of a kind."""
    return (_group(one), one.kind, one.name) == (_group(other), other.kind, other.name)


def _group(owner: OwnerReference) -> str:
    return owner.api_version.rpartition("/")[0]
