"""Records which buckets a replica has of the objects: what it follows, what it holds, and what it forgets."""

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field

from informers import APIResource
from reconcile.recording.recorded_events import BucketOp, Buckets, resource_text

Add = Callable[[Buckets], None]


@define(eq=False)
class BucketRecorder:
    """A `BucketObserver`: passes each change to `add`, and knows what a file is to begin with.

    `at` is the time of the recording.
    """

    at: Callable[[], int]
    add: Add
    _followed: dict[str, Sequence[int]] = field(factory=dict, init=False)
    _epochs: dict[int, int] = field(factory=dict, init=False)
    _closed: set[int] = field(factory=set, init=False)

    def followed(self, resource: APIResource, buckets: Collection[int]) -> None:
        text = resource_text(resource)
        self._followed[text] = sorted(buckets)
        self._note("follow", text, buckets)

    def held(self, epochs: Mapping[int, int], clean: bool) -> None:
        self._epochs |= epochs
        self._closed.difference_update(epochs)
        self._note("hold" if clean else "hold unclean", "", epochs, epochs)

    def closed(self, buckets: Collection[int]) -> None:
        self._closed.update(buckets)
        self._note("close", "", buckets)

    def dropped(self, buckets: Collection[int]) -> None:
        for bucket in buckets:
            self._epochs.pop(bucket, None)
            self._closed.discard(bucket)
        self._note("drop", "", buckets)

    def forgotten(self, controller: str, buckets: Collection[int]) -> None:
        """A controller forgets its keys in these buckets."""
        self._note("forget", controller, buckets)

    def stored(self) -> Sequence[Buckets]:
        """What there is, as events for the beginning of a file."""
        at, found = self.at(), list[Buckets]()
        for resource, buckets in self._followed.items():
            found.append(Buckets(at, "follow", resource, list(buckets), []))
        if self._epochs:
            found.append(Buckets(at, "hold", "", [*self._epochs], [*self._epochs.values()]))
        if self._closed:
            found.append(Buckets(at, "close", "", sorted(self._closed), []))
        return found

    def _note(
        self, op: BucketOp, subject: str, buckets: Collection[int], epochs: Mapping[int, int] | None = None
    ) -> None:
        if buckets or op == "follow":
            ordered = sorted(buckets)
            numbers = [] if epochs is None else [epochs[bucket] for bucket in ordered]
            self.add(Buckets(self.at(), op, subject, ordered, numbers))
