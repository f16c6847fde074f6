"""Why a key is to be worked on."""

from __future__ import annotations

from typing import Any

from attrs import frozen

MAX_CAUSES = 8
"""How many causes are kept."""


@frozen
class Causes:
    """The newest causes of a key, each once and oldest first, and how many older ones were dropped."""

    kept: tuple[Any, ...] = ()
    dropped: int = 0

    def plus(self, cause: Any) -> Causes:
        """With `cause` as the newest; one that is known already moves to the end."""
        others = tuple(known for known in self.kept if known != cause)
        surplus = max(0, len(others) + 1 - MAX_CAUSES)
        return Causes((*others[surplus:], cause), self.dropped + surplus)

    def followed_by(self, later: Causes) -> Causes:
        """These, and then those."""
        causes = Causes(self.kept, self.dropped + later.dropped)
        for cause in later.kept:
            causes = causes.plus(cause)
        return causes


NO_CAUSES = Causes()
