"""When each key ran last, and calls for those who follow the runs: only where a manager serves pages.

`RunHistory` keeps all of a run, but of few keys; here it is one number a key, of many keys.
"""

from collections.abc import Callable
from math import copysign
from typing import Final, NamedTuple, TypeAlias

from attrs import define, field

from reconcile.runs.run_request import Request

KEYS_OF_A_GENERATION: Final = 25_000
"""Ends that are kept before the older half is forgotten."""
_SLOTS = 12
_SLOT_SECONDS = 60 / _SLOTS

Slots: TypeAlias = dict[int, int]
"""How many runs ended in each slot of five seconds, for the last minute at least."""

Onlooker: TypeAlias = Callable[[Request], None]
"""Called when a run of a key begins and when it has ended; it must be quick, and must not raise."""


def count_end(slots: Slots, now: float) -> None:
    """Note that a run ended now (event loop's seconds)."""
    slot = int(now / _SLOT_SECONDS)
    slots[slot] = slots.get(slot, 0) + 1
    if len(slots) > _SLOTS:
        del slots[min(slots)]


def ends_of_last_minute(slots: Slots, now: float) -> int:
    """How many runs ended within the last minute, to five seconds."""
    oldest = int(now / _SLOT_SECONDS) - _SLOTS + 1
    return sum(count for slot, count in slots.items() if slot >= oldest)


class LastRun(NamedTuple):
    """The last run of a key: when it ended (event loop's seconds), and whether with an error."""

    ended: float
    failed: bool


@define(eq=False)
class RunEnds:
    """The ends of one controller's runs; keys that ran long ago may be forgotten."""

    # Two generations rather than an order: an OrderedDict costs twice the memory, and an entry of a plain
    # dict cannot be moved to its end without making it sparse.
    _newer: dict[Request, float] = field(factory=dict, init=False)
    _older: dict[Request, float] = field(factory=dict, init=False)
    _slots: Slots = field(factory=dict, init=False)
    _failed_slots: Slots = field(factory=dict, init=False)
    _onlookers: tuple[Onlooker, ...] = field(default=(), init=False)

    def last(self, request: Request) -> LastRun | None:
        """The last run of a key that was not cancelled, if it is remembered."""
        ended = self._newer.get(request)
        if ended is None:
            ended = self._older.get(request)
        # The sign is the error: a tuple for each key would be three times as large.
        return None if ended is None else LastRun(abs(ended), copysign(1.0, ended) < 0)

    def of_last_minute(self, now: float) -> int:
        """How many runs of all keys ended within the last minute, to five seconds."""
        return ends_of_last_minute(self._slots, now)

    def failures_of_last_minute(self, now: float) -> int:
        """How many of these failed."""
        return ends_of_last_minute(self._failed_slots, now)

    def follow(self, onlooker: Onlooker) -> Callable[[], None]:
        """Call `onlooker` for each begin and end from now on; returns what undoes that."""
        self._onlookers = (*self._onlookers, onlooker)

        def leave() -> None:
            self._onlookers = tuple(one for one in self._onlookers if one is not onlooker)

        return leave

    def began(self, request: Request) -> None:
        for onlooker in self._onlookers:
            onlooker(request)

    def ended(self, request: Request, now: float, failed: bool) -> None:
        """Note the end of a run that was not cancelled."""
        if len(self._newer) >= KEYS_OF_A_GENERATION and request not in self._newer:
            self._older, self._newer = self._newer, {}
        self._newer[request] = -now if failed else now
        count_end(self._slots, now)
        if failed:
            count_end(self._failed_slots, now)
        self.cancelled(request)

    def cancelled(self, request: Request) -> None:
        """Note the end of a run that was cancelled: it counts for nothing, but it is not under way."""
        for onlooker in self._onlookers:
            onlooker(request)
