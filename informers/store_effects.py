"""What comes of the decisions of a reflector in a store of which only a share is followed.

A tap gets these in place of decisions: carried out in another store, they have the same effect there,
whatever share it follows and whatever was read before.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from informers.reflector_state import Output
from informers.resource import Key
from informers.snapshot import Snapshot


class Leave(msgspec.Struct, frozen=True):
    """An object has changed, and is not followed in this state."""

    snapshot: Snapshot


class StageLeft(msgspec.Struct, frozen=True):
    """These objects of an incomplete list are not followed, or not any more."""

    snapshots: Sequence[Snapshot]


class Merge(msgspec.Struct, frozen=True):
    """These objects were read apart from the list: what is newer than the store is taken over."""

    snapshots: Sequence[Snapshot]
    initial: bool = False


class Drop(msgspec.Struct, frozen=True):
    """The object that is held is not followed any more, or a list at `missing_at` did not have it."""

    key: Key
    missing_at: int | None = None


Effect: TypeAlias = Output | Leave | StageLeft | Merge | Drop
