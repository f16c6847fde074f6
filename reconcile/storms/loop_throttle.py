"""Spaces the runs of a key in a loop: ever further apart while the loop goes on."""

from attrs import define

FIRST = 20.0
GROWTH = 3.0
"""Intervals of 20, 60, 180 and then 300 s: a loop that lasts costs a dozen runs an hour."""
PROBATION = 60.0
"""Seconds after a run without the loop's writes within which their return is still the same storm."""


@define
class LoopThrottle:
    """The interval of one key in a loop (s), up to `longest`; times are of the event loop's clock."""

    longest: float
    seconds: float = 0.0
    held_until: float = 0.0
    due: float = 0.0
    probation_until: float | None = None
    free: bool = False

    def begin(self, now: float) -> None:
        self.seconds = min(FIRST, self.longest)
        self.due, self.held_until = now, now + self.seconds

    def wait(self, now: float) -> float:
        if self.probation_until is not None or self.free:
            return 0.0
        return max(0.0, self.held_until - now)

    def note_run(self, looping: bool, now: float) -> None:
        """Note the end of a run; `looping`: it made the loop's writes again."""
        due = now >= self.held_until
        if not looping:
            if self.probation_until is None:
                self.probation_until = now + min(PROBATION, self.longest)
        elif due and self.probation_until is None:
            self.seconds = min(self.seconds * GROWTH, self.longest)
            # One more run at once, which shows whether the loop goes on: its end is noticed in one interval.
            self.due, self.held_until, self.free = now, now + self.seconds, True
        else:
            self.held_until = max(now, self.due + self.seconds)
            self.probation_until, self.free = None, False

    def over(self, now: float) -> bool:
        return self.probation_until is not None and now >= self.probation_until
