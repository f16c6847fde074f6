"""What one run read, wrote and failed at: which children may be pruned, which news are echoes."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attrs import define, field

from informers import APIResource, Key, Snapshot
from reconcile.runs.requests import Cause

Place = tuple[APIResource, Key | None]

READS_KEPT = 32


@define(eq=False)
class Sent:
    """A mutating request of a run.

    `base` is the object as the cache had it when this was sent, `written` what the server answered: None
    where there was no answer, or one that is not the object. `fresh`: the answer has fields of this
    writer alone, so nobody else can have made the object. `dry`: nothing was to be carried out. `changes`
    is what `storms.changes.changes_of` found between the two, once it was asked.
    """

    method: str
    resource: APIResource
    key: Key
    subresource: str
    body: Any
    base: Snapshot | None = None
    written: Snapshot | None = None
    fresh: bool = False
    dry: bool = False
    changes: Sequence[Any] | None = field(default=None, init=False)


Told: TypeAlias = Callable[[Sent], None]


@define(eq=False)
class RunRecord:
    """The objects that a run has written or found as it wants them, and what it asked for in vain.

    A failure that was made good at the same place (a conflict, and then the patch on fresh state) is none.
    """

    _written: dict[Place, Snapshot | None] = field(factory=dict, init=False)
    _failed: set[Place] = field(factory=set, init=False)
    _lost: bool = field(default=False, init=False)
    reads: tuple[Place, ...] = field(default=(), init=False)
    _sent: list[Sent] | None = field(default=None, init=False)
    told: Told | None = field(default=None, init=False)
    rendered: dict[tuple[APIResource, Key, str], Any] | None = field(default=None, init=False)
    causes: Sequence[Cause] = field(default=(), init=False)
    primary: Snapshot | None = field(default=None, init=False)
    """The object that the run was for, as it was when it began."""

    def saw(self, resource: APIResource, key: Key | None) -> None:
        """The run read an object, or all of a resource; the first few are kept, for people to read."""
        if len(self.reads) < READS_KEPT:
            self.reads += ((resource, key),)

    def wants(self, resource: APIResource, key: Key, subresource: str, body: Any) -> None:
        """The run wants an object to be so; kept only where `rendered` is there for it."""
        if self.rendered is not None:
            self.rendered[resource, key, subresource] = body

    def made_once(self, resource: APIResource, key: Key) -> None:
        """What the run wanted of an object was made by chance, and is kept: no rendering."""
        if self.rendered is not None:
            self.rendered.pop((resource, key, ""), None)

    @property
    def sent(self) -> Sequence[Sent]:
        """The requests for changes, in their order."""
        return self._sent or ()

    def asked(self, sent: Sent) -> None:
        """The run sent a request for a change."""
        if self._sent is None:
            self._sent = []
        self._sent.append(sent)
        if self.told is not None:
            self.told(sent)

    def kept(self, resource: APIResource, key: Key, state: Snapshot | None = None) -> None:
        """The run has this object as it wants it; `state` is what the server answered."""
        self._written[resource, key] = state
        self._failed.discard((resource, key))

    def failed(self, resource: APIResource, key: Key | None) -> None:
        """The run asked for something of this object (or of its kind) and did not get it."""
        self._failed.add((resource, key))

    def answered(self, resource: APIResource, key: Key | None) -> None:
        """What was asked of it before, it got now."""
        self._failed.discard((resource, key))

    def lost(self) -> None:
        """Something else went wrong in this run."""
        self._lost = True

    def state_of(self, resource: APIResource, key: Key) -> Snapshot | None:
        """An object as this run wrote it last, if it did and knows."""
        return self._written.get((resource, key))

    @property
    def flawless(self) -> bool:
        """Whether nothing that the run asked for was refused it."""
        return not self._failed and not self._lost

    def keeps(self, resource: APIResource, key: Key) -> bool:
        """Whether the run wants this object."""
        return (resource, key) in self._written
