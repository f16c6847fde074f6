"""What one run wrote and what it failed at: from this follows which children may be pruned."""

from attrs import define, field

from informers import Key, Resource, Snapshot

Place = tuple[Resource, Key | None]


@define(eq=False)
class RunRecord:
    """The objects that a run has written or found as it wants them, and what it asked for in vain.

    A failure that was made good at the same place (a conflict, and then the patch on fresh state) is none.
    """

    _written: dict[Place, Snapshot | None] = field(factory=dict, init=False)
    _failed: set[Place] = field(factory=set, init=False)
    _lost: bool = field(default=False, init=False)

    def kept(self, resource: Resource, key: Key, state: Snapshot | None = None) -> None:
        """The run has this object as it wants it; `state` is what the server answered."""
        self._written[resource, key] = state
        self._failed.discard((resource, key))

    def failed(self, resource: Resource, key: Key | None) -> None:
        """The run asked for something of this object (or of its kind) and did not get it."""
        self._failed.add((resource, key))

    def answered(self, resource: Resource, key: Key | None) -> None:
        """What was asked of it before, it got now."""
        self._failed.discard((resource, key))

    def lost(self) -> None:
        """Something else went wrong in this run."""
        self._lost = True

    def state_of(self, resource: Resource, key: Key) -> Snapshot | None:
        """An object as this run wrote it last, if it did and knows."""
        return self._written.get((resource, key))

    @property
    def flawless(self) -> bool:
        """Whether nothing that the run asked for was refused it."""
        return not self._failed and not self._lost

    def keeps(self, resource: Resource, key: Key) -> bool:
        """Whether the run wants this object."""
        return (resource, key) in self._written
