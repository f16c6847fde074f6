"""What a controller does now, as a value."""

from attrs import frozen

from workqueue import QueueStatus


@frozen
class ControllerStatus:
    """The present state of a controller: its queue, and its runs since it was started.

    `resting` keys are paused. `failing` keys failed in their last run, the first of them `failing_seconds`
    ago. `unconverged` objects are not observed and ready in their generation, one for `unconverged_seconds`.
    The last four are 0 where the manager has no metrics.
    """

    name: str
    queue: QueueStatus
    runs: int
    failures: int
    paused: bool = False
    resting: int = 0
    failing: int = 0
    failing_seconds: float = 0.0
    unconverged: int = 0
    unconverged_seconds: float = 0.0
