"""What is counted of a controller's service levels; apart from what measures them, which is rarely loaded."""

from typing import Protocol


class ServiceMetrics(Protocol):
    """The service levels of one controller, for any library."""

    def reacted(self, seconds: float) -> None:
        """A run began, `seconds` after the first change or trigger that it is for."""
        ...

    def converged(self, seconds: float) -> None:
        """An object was observed and ready, `seconds` after its generation was first seen."""
        ...

    def rested(self, wrote: bool) -> None:
        """A run at rest ended well: nothing but a resync had woken it. `wrote`: it changed an object."""
        ...
