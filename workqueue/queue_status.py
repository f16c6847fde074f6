"""What a queue reports: its present state, and each event in it."""

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
    """`ready` by priority, without priorities that have no ready key."""
    unfinished_seconds: float = 0.0
    """For how long the keys in work have been worked on, summed up."""
    longest_running_seconds: float = 0.0
    """For how long the oldest of them has been worked on."""
    closed: bool = False
    """Whether `drain` or `close` was called."""
    oldest_ready_seconds: float = 0.0
    """For how long the key that is ready and waits longest has been due: how far the workers are behind."""


class QueueMetrics(Protocol):
    """Receives the events of a queue, for counters and histograms of any library.

    The queue calls it while it works, so these methods must be quick, must not raise and must not call the
    queue. Levels (depth, unfinished work, the longest run) are read from `WorkQueue.status()` instead.
    """

    def added(self, priority: int) -> None:
        """A key became ready: by an add that was not merged into an earlier one, or when its delay ended."""

    def retried(self) -> None:
        """A key was added by `add_rate_limited`."""

    def started(self, priority: int, waited: float) -> None:
        """A key was handed out, `waited` seconds after it became due."""

    def ended(self, worked: float) -> None:
        """The work on a key ended, successfully or not, after `worked` seconds."""
