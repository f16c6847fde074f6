"""What is known of the writes of each key: next to nothing while it is quiet."""

from collections import deque
from collections.abc import Sequence

from attrs import define, field

from informers import Delta, Key, Resource, Snapshot
from reconcile.requests import Cause, Request
from reconcile.run_record import Sent
from reconcile.storms.changes import WHOLE, Spot, steps_of
from reconcile.storms.detection import WINDOW, Hit, Origin

WARM_RUNS = 2
WARM_SECONDS = 120.0
"""So many runs with writes within so many seconds, without a change of the spec, warm a key."""

WARM_KEYS = 1000
SPOTS = 64
HITS = 16


@define(eq=False)
class Warm:
    """The writes of a key that keeps writing, and the last change of an object that woke it."""

    primary: tuple[Resource, Key]
    since: float
    runs: int = 0
    writes: int = 0
    last_write: float = 0.0
    trails: dict[Spot, deque[Hit]] = field(factory=dict)
    objects: set[tuple[Resource, Key]] = field(factory=set)
    trigger: tuple[Resource, Snapshot | None, Snapshot] | None = None
    echo: Cause | None = None
    foreign: Cause | None = None

    def hears(self, resource: Resource, delta: Delta) -> None:
        """Somebody else's change wakes the key."""
        self.trigger = (resource, delta.old, delta.last)

    def note(self, sent: Sequence[Sent], causes: Sequence[Cause], now: float) -> list[Spot]:
        """A run has ended that wrote; returns where."""
        self.writes += len(sent)
        self.last_write = now
        steps = [step for one in sent for step in steps_of(one)]
        made = any(step.spot.path == WHOLE and step.before != step.after for step in steps)
        self.echo = next((cause for cause in causes if cause.echo), self.echo)
        self.foreign = next(
            (cause for cause in causes if cause.key is not None and not cause.echo), self.foreign
        )
        for step in steps:
            if step.spot not in self.trails and len(self.trails) >= SPOTS:
                continue
            self.objects.add((step.spot.resource, step.spot.key))
            trail = self.trails.setdefault(step.spot, deque(maxlen=HITS))
            trail.append(Hit(now, origin_of(causes, step.spot), step.before, step.after, made))
        return [step.spot for step in steps]


def origin_of(causes: Sequence[Cause], spot: Spot) -> Origin:
    """What woke a run, as it looks from a field that the run then wrote."""
    at_spot = [cause for cause in causes if (cause.resource, cause.key) == (spot.resource, spot.key)]
    if any(not cause.echo for cause in at_spot):
        return "reverted"
    if at_spot:
        return "echo"
    if any(cause.key is not None and not cause.echo for cause in causes):
        return "other"
    if any(cause.echo for cause in causes):
        return "own"
    return "retried" if any(cause.verb == "retried" for cause in causes) else "timed"


@define
class Cold:
    """A key that wrote: how many runs of it did, since when, and of which generation."""

    since: float
    generation: int
    runs: int = 1
    warm: Warm | None = None


@define(eq=False)
class Meter:
    """What each key of a controller wrote of late. A key that does not write leaves nothing."""

    resource: Resource
    keys: dict[Request, Cold] = field(factory=dict, init=False)
    _warm: dict[Request, Warm] = field(factory=dict, init=False)

    def warm(self, request: Request) -> Warm | None:
        """The trails of a key, if it keeps writing."""
        return self._warm.get(request) if self._warm else None

    def quiet(self, request: Request, now: float) -> None:
        """A run has ended that wrote nothing."""
        cold = self.keys.get(request)
        if cold is None:
            return
        last = cold.since if cold.warm is None else cold.warm.last_write
        if now - last > (WARM_SECONDS if cold.warm is None else WINDOW):
            self.forget(request)
        elif cold.warm is not None:
            cold.warm.runs += 1

    def wrote(
        self, request: Request, generation: int, sent: Sequence[Sent], causes: Sequence[Cause], now: float
    ) -> list[Spot]:
        """A run has ended that wrote; returns where, if the key is warm."""
        cold = self.keys.get(request)
        stale = cold is not None and cold.warm is None and now - cold.since > WARM_SECONDS
        if cold is None or stale or cold.generation != generation:
            self.forget(request)
            self.keys[request] = Cold(now, generation)
            return []
        cold.runs += 1
        if cold.warm is None and cold.runs >= WARM_RUNS:
            cold.warm = self._warm[request] = Warm(
                (self.resource, request.key), cold.since, runs=cold.runs - 1
            )
            self._make_room(now)
        if cold.warm is None:
            return []
        cold.warm.runs += 1
        return cold.warm.note(sent, causes, now)

    def forget(self, request: Request) -> None:
        """The key begins anew."""
        self.keys.pop(request, None)
        self._warm.pop(request, None)

    def _make_room(self, now: float) -> None:
        if len(self._warm) <= WARM_KEYS:
            return
        for request, warm in [*self._warm.items()]:
            if now - warm.last_write > WINDOW:
                self.forget(request)
        while len(self._warm) > WARM_KEYS:
            self.forget(next(iter(self._warm)))
