"""What a loop is: pure functions over the writes of one key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from attrs import frozen

from informers import Key, Resource
from reconcile.storms.changes import ABSENT, PRESENT, WHOLE, Spot

WINDOW = 600.0
"""Seconds that are looked at. What happens less than once a minute is no storm."""
OWN_REWRITES = 8
OTHER_REWRITES = 12
REVERTS = 6
FLIPS = 8
UNMADE = 6
VALUES = 3
"""The longest cycle that counts as one."""

Origin: TypeAlias = Literal["echo", "own", "reverted", "other", "timed", "retried"]
"""What woke the run that made a write.

`echo`: the key's own write to that very object. `own`: its own write to another one. `reverted`: somebody
else changed that object. `other`: somebody else changed another one. `timed`: the author asked for it.
`retried`: a failure; its back-off slows it, so it never counts.
"""


class Hit(NamedTuple):
    """One write to one field: when (event loop's seconds), after what, to which value."""

    at: float
    origin: Origin
    after: int
    made: bool
    """The same run has made or deleted objects: it may well be on its way."""


Kind: TypeAlias = Literal["rewritten", "fought", "flipping", "churning"]


@frozen
class Loop:
    """A key that wakes itself, or that is in a fight.

    `rewritten`: its writes wake it to write again. `fought`: somebody else undoes what it writes.
    `flipping`: what it writes goes round in a circle. `churning`: it makes objects and deletes them again,
    each under a name of its own; `key` is one of them.
    """

    kind: Kind
    resource: Resource
    key: Key
    paths: Sequence[str]
    values: int
    writes: int

    def has(self, spot: Spot) -> bool:
        """Whether a write there is one of the loop's."""
        if self.kind == "churning":
            return spot.resource == self.resource and spot.path == WHOLE
        if (spot.resource, spot.key) != (self.resource, self.key):
            return False
        return not self.paths or spot.path in self.paths


def find_loop(
    trails: Mapping[Spot, Iterable[Hit]], now: float, primary: tuple[Resource, Key] | None = None
) -> Loop | None:
    """The loop that a key is in, if it is: of several the one with most writes, all its paths named.

    `trails` are the writes since the key's spec last changed. `primary` is the key's own object: its status
    says what other objects do, so it may well flip with them.
    """
    best: Loop | None = None
    for spot, trail in trails.items():
        hits = [hit for hit in trail if hit.at > now - WINDOW and hit.origin != "retried"]
        kind = _kind(spot, hits, primary)
        if kind is None or (best is not None and best.writes >= len(hits)):
            continue
        best = Loop(kind, spot.resource, spot.key, (), len({hit.after for hit in hits}), len(hits))
    if best is None:
        return _churning(trails, now)
    return Loop(best.kind, best.resource, best.key, _paths(trails, best, now), best.values, best.writes)


def _kind(spot: Spot, hits: Sequence[Hit], primary: tuple[Resource, Key] | None) -> Kind | None:
    cycling = len({hit.after for hit in hits}) <= VALUES
    reverted = [hit for hit in hits if hit.origin == "reverted"]
    if cycling and len(reverted) >= REVERTS:
        return "fought"
    echoed = [hit for hit in hits if hit.origin == "echo" and (cycling or not hit.made)]
    if len(echoed) >= OWN_REWRITES:
        return "rewritten"
    own = [hit for hit in hits if hit.origin in ("echo", "own") and (cycling or not hit.made)]
    if len(own) >= OTHER_REWRITES:
        return "rewritten"
    reports = primary == (spot.resource, spot.key) and spot.path.startswith(".status")
    flips = [hit for hit in hits if not (reports and hit.origin in ("other", "reverted"))]
    if cycling and len(flips) >= FLIPS:
        return "flipping"
    return None


def _churning(trails: Mapping[Spot, Iterable[Hit]], now: float) -> Loop | None:
    """Objects of one kind that the key has both made and deleted, in runs that its own writes woke."""
    unmade: dict[Resource, list[Key]] = {}
    for spot, trail in trails.items():
        own = [hit for hit in trail if hit.at > now - WINDOW and hit.origin in ("echo", "own")]
        if spot.path == WHOLE and {hit.after for hit in own} == {ABSENT, PRESENT}:
            unmade.setdefault(spot.resource, []).append(spot.key)
    for resource, keys in unmade.items():
        if len(keys) >= UNMADE:
            return Loop("churning", resource, keys[-1], (), len(keys), 2 * len(keys))
    return None


def _paths(trails: Mapping[Spot, Iterable[Hit]], loop: Loop, now: float) -> tuple[str, ...]:
    """The fields of the object that are written about as often as the worst one."""
    often = [
        spot.path
        for spot, trail in trails.items()
        if (spot.resource, spot.key) == (loop.resource, loop.key)
        and 2 * sum(hit.at > now - WINDOW for hit in trail) >= loop.writes
        and spot.path != WHOLE
    ]
    return tuple(sorted(often))
