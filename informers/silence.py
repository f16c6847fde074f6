"""How long a watch may be silent before it counts as dead."""

import anyio

from informers.reflector_state import State, Streaming, Watching

BOOKMARK_SECONDS = 60.0
"""Seconds between bookmarks of kube-apiserver (its cacher sends one about every minute)."""
BOOKMARK_MARGIN = 10.0
"""Seconds after two missed bookmarks at which a watch is resumed; one bookmark may be late."""


class WatchDeadline:
    """Counts the events of a stream, and decides when it counts as dead.

    A proxy or firewall may drop a connection without notice to either side; missing bookmarks show that
    early. Not every server sends bookmarks, and the first one of a quiet resource may be late, so they are
    expected only after the first, at the observed interval.
    """

    def __init__(self, started: float, longest: float, silence: float | None) -> None:
        self.events = 0
        self.scope = anyio.CancelScope(deadline=started + (longest if silence is None else silence))
        self._dead = started + longest
        self._silence = silence
        self._bookmarked = started
        self._patience: float | None = None
        self._moved = 0.0

    @property
    def bookmarked(self) -> bool:
        """Whether a bookmark came that did not just end a list."""
        return self._patience is not None

    def heard(self, state: State, now: float) -> None:
        """The server sent something: postpone the deadline of a list, and of a watch with bookmarks."""
        if isinstance(state, Streaming):
            if self._silence is not None:
                self.scope.deadline = now + self._silence
            return
        if self._silence is not None:
            self.scope.deadline, self._silence = self._dead, None
        if self._patience is None:
            return
        if now - self._moved >= 1.0:  # to move a deadline costs more than to read an event
            self._moved = now
            self.scope.deadline = min(self._dead, now + self._patience)

    def bookmark(self, state: State) -> None:
        """A bookmark came, so more are expected, except after the one that ends a list."""
        now = anyio.current_time()
        interval, self._bookmarked = now - self._bookmarked, now
        if isinstance(state, Watching) and self._silence is None:
            self._patience = 2 * max(interval, BOOKMARK_SECONDS) + BOOKMARK_MARGIN
            self._moved = 0.0
