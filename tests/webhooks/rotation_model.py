"""A model of replicas around `rotation.step`: every order of their reads and writes, deaths and late starts.

Versions are left out: what a replica has read is `fresh` until the object is written again. One CA is due
and another takes its place, so the number of states is finite.
"""

import datetime
from collections.abc import Iterator

from attrs import evolve, frozen

from reconcile.webhooks.rotation import Authority, Leaf, Member, Move, Replica, Rotation, Validity, step

NOW = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
YEAR = datetime.timedelta(days=365)
NAMES = ("shop.shop.svc",)
AUTHORITIES = {
    "old": Authority("old", Validity(NOW - YEAR * 0.7, NOW + YEAR * 0.3)),
    "new": Authority("new", Validity(NOW, NOW + YEAR)),
}

Bundle = tuple[str, ...]


@frozen
class Stored:
    """The Secret, without what does not change."""

    current: str = "old"
    upcoming: str = ""
    leaf: str = "old"
    members: tuple[tuple[str, Member], ...] = ()

    @property
    def rotation(self) -> Rotation:
        upcoming = AUTHORITIES[self.upcoming] if self.upcoming else None
        leaf = Leaf(self.leaf, NAMES, Validity(NOW, NOW + YEAR))
        return Rotation(AUTHORITIES[self.current], leaf, upcoming, dict(self.members))


@frozen
class Process:
    """A replica between two of its requests. `doing` is the next: objects, secret, write, or bundle 0, 1 ...

    It knows the first `knows` objects: a replica of a newer version may know more of them.
    """

    knows: int
    doing: str = "objects"
    objects: tuple[Bundle, ...] = ()
    fresh: tuple[bool, ...] = ()
    secret: Stored = Stored()
    secret_fresh: bool = False
    serves: str = ""
    listening: bool = False
    held: frozenset[str] = frozenset()
    ripe: frozenset[str] = frozenset()
    life: str = "alive"


@frozen
class World:
    """`views` are the bundles of each object that API servers may use now, the last one is stored."""

    secret: Stored
    views: tuple[tuple[Bundle, ...], ...]
    processes: tuple[Process, ...]

    @property
    def done(self) -> bool:
        # What only a dead replica knew of keeps both CAs, which is safe.
        known = max((process.knows for process in self.processes if process.life == "alive"), default=0)
        bundles = {view[-1] for view in self.views[:known]}
        return self.secret.current == "new" and not self.secret.upcoming and bundles == {("new",)}

    def refused(self) -> str:
        """A call that fails, if there is one; those by objects without a bundle yet do not count."""
        for number, process in enumerate(self.processes):
            if process.life != "alive" or not process.listening:
                continue
            for view in self.views:
                for bundle in view:
                    if bundle and process.serves not in bundle:
                        return f"replica {number} serves {process.serves}, trusted are {bundle}"
        return ""


def first(replicas: int, objects: int, late: int = 1, more_objects: int = 0) -> World:
    """All serve the old CA, but for `late` ones that start later. The last alone knows `more_objects`.

    If it starts later, these objects are new: they have no bundle until it writes one.
    """
    started = replicas - late
    knows = [objects - more_objects] * (replicas - 1) + [objects]
    running = (Process(count, serves="old", listening=True) for count in knows[:started])
    members = tuple((str(number), Member("old", ("old",))) for number in range(started))
    processes = (*running, *map(Process, knows[started:]))
    known: tuple[Bundle, ...] = (("old",),)
    new: tuple[Bundle, ...] = ((),)
    views = (known,) * (objects - more_objects) + (new if late else known,) * more_objects
    return World(Stored(members=members), views, processes)


def after(world: World, *, deaths: int = 1) -> Iterator[tuple[str, World]]:
    """The worlds that may follow."""
    yield "a minute passes", _later(world)
    died = sum(process.life != "alive" for process in world.processes)
    for number, process in enumerate(world.processes):
        if process.life == "alive":
            yield f"{number}: {process.doing}", _act(world, number, process)
            if died < deaths:
                yield f"{number} dies", _with(world, number, Process(process.knows, life="dead"))
        elif process.life == "dead":
            yield f"{number} is silent", _with(world, number, evolve(process, life="silent"))


def _later(world: World) -> World:
    views = tuple((view[-1],) for view in world.views)
    processes = tuple(evolve(process, ripe=process.held) for process in world.processes)
    return evolve(world, views=views, processes=processes)


def _act(world: World, number: int, process: Process) -> World:
    if process.doing == "objects":
        objects = tuple(view[-1] for view in world.views[: process.knows])
        read = evolve(process, doing="secret", objects=objects, fresh=(True,) * len(objects))
        return _with(world, number, read)
    if process.doing == "secret":
        return _with(world, number, _read_secret(world, process))
    if process.doing == "write":
        return _write_secret(world, number, process)
    return _write_bundle(world, number, process)


def _read_secret(world: World, process: Process) -> Process:
    secret = world.secret
    held = frozenset(one for one in secret.rotation.trusted if all(one in o for o in process.objects))
    return evolve(
        process,
        doing="write",
        secret=secret,
        secret_fresh=True,
        serves=secret.leaf,
        held=held,
        ripe=process.ripe & held,
    )


def _write_secret(world: World, number: int, process: Process) -> World:
    state = process.secret.rotation
    silent = {str(n) for n, other in enumerate(world.processes) if other.life == "silent"}
    says = Member(process.serves, tuple(sorted(process.ripe)))
    taken = step(state, Replica(str(number), says, NAMES), silent, NOW)
    secret = _taken(process.secret, taken.move, tuple(sorted(taken.members.items())))
    if secret != process.secret and not process.secret_fresh:
        return _with(world, number, _idle(process))
    written = evolve(process, doing="bundle 0", secret=secret, listening=True)
    if secret == process.secret:
        return _with(world, number, written)
    others = tuple(evolve(other, secret_fresh=False) for other in world.processes)
    return _with(evolve(world, secret=secret, processes=others), number, written)


def _taken(secret: Stored, move: Move, members: tuple[tuple[str, Member], ...]) -> Stored:
    secret = evolve(secret, members=members)
    if move is Move.ANNOUNCE:
        return evolve(secret, upcoming="new")
    if move is Move.SWITCH:
        return evolve(secret, leaf="new")
    if move is Move.DROP:
        return evolve(secret, current="new", upcoming="")
    assert move is Move.KEEP
    return secret


def _write_bundle(world: World, number: int, process: Process) -> World:
    at = int(process.doing.split()[1])
    last = at + 1 == process.knows
    following = _idle(process) if last else evolve(process, doing=f"bundle {at + 1}")
    wanted = process.secret.rotation.trusted
    if wanted == process.objects[at] or not process.fresh[at]:
        return _with(world, number, following)
    views = tuple(_seen(view, wanted) if place == at else view for place, view in enumerate(world.views))
    others = tuple(_outdated(other, at) for other in world.processes)
    return _with(evolve(world, views=views, processes=others), number, following)


def _seen(view: tuple[Bundle, ...], written: Bundle) -> tuple[Bundle, ...]:
    return (*(bundle for bundle in view if bundle != written), written)


def _outdated(process: Process, at: int) -> Process:
    return evolve(process, fresh=tuple(f and place != at for place, f in enumerate(process.fresh)))


def _idle(process: Process) -> Process:
    """Before the next look; what it read is forgotten."""
    return evolve(process, doing="objects", objects=(), fresh=(), secret=Stored(), secret_fresh=False)


def _with(world: World, number: int, process: Process) -> World:
    processes = tuple(process if n == number else other for n, other in enumerate(world.processes))
    return evolve(world, processes=processes)
