"""What a queue reports: its state now, and each thing that happens in it."""

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen


@frozen
class QueueStatus:
    """The state of a queue at one moment."""

    ready: int
    """How many keys may be handed out: the depth of the queue."""
    delayed: int
    """How many wait for a delay, a back-off or the minimum interval."""
    working: int
    """How many are in work."""
    depths: Mapping[int, int] = field(factory=dict)
    """`ready` by priority; a priority without a ready key is not in it."""
    unfinished_seconds: float = 0.0
    """How long the keys in work have been so, summed up."""
    longest_running_seconds: float = 0.0
    """How long the one that is longest in work has been so."""
    closed: bool = False
    """Whether `drain` or `close` was called."""


class QueueMetrics(Protocol):
    """What happens in a queue, for counters and histograms of whatever library.

    The calls come from within the queue's own, so they are quick, raise nothing and do not call the
    queue. What is a level and no event (depth, unfinished work, the longest run) is read from
    `WorkQueue.status()` when it is asked for.
    """

    def added(self, priority: int) -> None:
        """A key became ready: by an add that was not merged into an earlier one, or when its delay ended."""

    def retried(self) -> None:
        """A key was added by `add_rate_limited`."""

    def started(self, priority: int, waited: float) -> None:
        """A key was handed out, `waited` seconds after it was first wanted."""

    def ended(self, worked: float) -> None:
        """The work on a key ended, well or not, after `worked` seconds."""
