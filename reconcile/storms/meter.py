"""What is known of the writes of each key: nothing while it does not write."""

from collections import deque
from collections.abc import Sequence

from attrs import define, evolve, field

from informers import Delta, Key, Resource, Snapshot
from reconcile.runs.requests import Cause, Request
from reconcile.runs.run_record import Sent
from reconcile.storms.changes import Spot, differences, paths_of, steps_of
from reconcile.storms.detection import WINDOW, Hit, Origin

WARM_SECONDS = 120.0
"""Two runs with writes within so many seconds warm a key."""

WARM_KEYS = 1000
"""Among so many keys at once a loop is looked for. Others have to wait until one of these is found to be in a
loop, or comes to rest: were they to take each other's place, no key would be known for long enough."""
SPOTS = 64
HITS = 16


@define(eq=False)
class Warm:
    """The writes of a key that keeps writing, and the last change of an object that woke it."""

    primary: tuple[Resource, Key]
    runs: int = 0
    writes: int = 0
    last_write: float = 0.0
    trails: dict[Spot, deque[Hit]] = field(factory=dict)
    trigger: tuple[Resource, Snapshot | None, Snapshot] | None = None
    echo: Cause | None = None
    foreign: Cause | None = None
    spec: Snapshot | None = None
    deleted: deque[tuple[Resource, Key]] = field(factory=lambda: deque(maxlen=SPOTS))
    written: dict[tuple[Resource, Key], tuple[str, ...]] = field(factory=dict)
    manager: str = ""
    writes_of: tuple[Resource, Key] | None = None
    reads: int = 0

    def hears(self, resource: Resource, delta: Delta) -> None:
        """Somebody else's change wakes the key."""
        self.trigger = (resource, delta.old, delta.last)

    def spec_changed(self, primary: Snapshot) -> bool:
        """Whether somebody wants something else than before, in fields that the key itself does not write."""
        before = self.spec
        if before is None or before.generation == primary.generation:
            return False
        if not before.is_same_object(primary):
            return True
        own = {spot.path for spot in self.trails if (spot.resource, spot.key) == self.primary}
        paths = (path for path, _, _ in differences(before, primary))
        return any(path not in own and not path.startswith((".status", ".metadata")) for path in paths)

    def note(self, sent: Sequence[Sent], causes: Sequence[Cause], now: float) -> list[Spot]:
        """A run has ended that wrote; returns where."""
        causes = [self._owned(cause) for cause in causes]
        self.writes += len(sent)
        self.last_write = now
        steps = [step for one in sent for step in steps_of(one)]
        made = any(step.made for step in steps)
        self.echo = next((cause for cause in causes if cause.echo), None)
        self.foreign = next((cause for cause in causes if cause.key is not None and not cause.echo), None)
        for step in steps:
            if step.spot not in self.trails and len(self.trails) >= SPOTS:
                continue
            trail = self.trails.setdefault(step.spot, deque(maxlen=HITS))
            trail.append(Hit(now, origin_of(causes, step.spot), step.after, made))
        self.written = {(one.resource, one.key): paths_of(one) for one in sent}
        self.deleted.extend((one.resource, one.key) for one in sent if one.method == "DELETE")
        for one in sent:
            if (one.resource, one.key) == self.primary and one.written is not None:
                self.spec = one.written
        return [step.spot for step in steps]

    def _owned(self, cause: Cause) -> Cause:
        """A cause that is the end of an object which the key deleted is its own, though it is no echo."""
        if cause.verb == "deleted" and (cause.resource, cause.key) in self.deleted:
            return evolve(cause, echo=True)
        return cause


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
    """A key that wrote: since when, and what more, if it keeps writing."""

    since: float
    warm: Warm | None = None


@define(eq=False)
class Meter:
    """What each key of a controller wrote of late. A key that does not write leaves nothing."""

    resource: Resource
    keys: dict[Request, Cold] = field(factory=dict, init=False)
    _warm: dict[Request, Warm] = field(factory=dict, init=False)
    _looked_at: dict[Request, Warm] = field(factory=dict, init=False)
    _full_until: float = field(default=float("-inf"), init=False)

    @property
    def any_warm(self) -> bool:
        """Whether any key keeps writing."""
        return bool(self._warm)

    def warm(self, request: Request) -> Warm | None:
        """The trails of a key, if it keeps writing."""
        return self._warm.get(request)

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
        self, request: Request, primary: Snapshot, sent: Sequence[Sent], causes: Sequence[Cause], now: float
    ) -> list[Spot]:
        """A run has ended that wrote, on that state of its object; returns where, if the key is warm."""
        cold = self.keys.get(request)
        if cold is None or self._begins_anew(cold, primary, now):
            self.forget(request)
            self.keys[request] = Cold(now)
            return []
        warm = cold.warm
        if warm is None:
            if not self._has_room(now):
                cold.since = now
                return []
            warm = Warm((self.resource, request.key), runs=1)
            cold.warm = self._warm[request] = self._looked_at[request] = warm
        warm.runs += 1
        warm.spec = primary
        return warm.note(sent, causes, now)

    def found(self, request: Request) -> None:
        """The key is in a loop: there is room for another one to be looked at."""
        self._looked_at.pop(request, None)

    def _begins_anew(self, cold: Cold, primary: Snapshot, now: float) -> bool:
        if cold.warm is None:
            return now - cold.since > WARM_SECONDS
        return cold.warm.spec_changed(primary)

    def forget(self, request: Request) -> None:
        """The key begins anew."""
        self.keys.pop(request, None)
        self._warm.pop(request, None)
        self._looked_at.pop(request, None)

    def _has_room(self, now: float) -> bool:
        if len(self._looked_at) < WARM_KEYS:
            return True
        if now <= self._full_until:  # writes only get later: the oldest needs no second look before that
            return False
        oldest = min(self._looked_at, key=lambda request: self._looked_at[request].last_write)
        self._full_until = self._looked_at[oldest].last_write + WARM_SECONDS
        if now <= self._full_until:
            return False
        self.forget(oldest)
        return True
