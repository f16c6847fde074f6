"""All that the status page shows of a manager, kept up to date while a browser has it open.

Without a viewer there are no rows, and nothing is called for changes. With viewers, a change is noted by key;
the rows are made when they are sent, once for all viewers. All of it is in the manager's event loop, which is
never held for longer than a slice.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, count
from math import inf
from typing import Any, Final, Protocol

import anyio
from attrs import define, field, frozen

from informers.clock import Clock
from informers.loop_slices import LoopSlice, collector_paused
from reconcile.controller.runner import Runner
from reconcile.ops.debug_actions import Replica
from reconcile.ops.manager_status import ManagerStatus, ShardingStatus
from reconcile.status.controller_rows import ControllerRows
from reconcile.status.key_facts import Around, around_of
from reconcile.status.object_health import HEALTHS
from reconcile.status.object_rows import ObjectRow, RowMaker
from reconcile.status.overview import overview_of

LOOK_SECONDS: Final = 0.02
"""Between two looks at pauses and storms, however many viewers there are."""
SURROUNDINGS_SECONDS: Final = 0.5
"""Between two looks at what concerns all keys: leadership, outages, first lists; and at readiness, which
asks the operator's own checks."""
SWEEP_SECONDS: Final = 1.0
"""Between two searches for rows whose words have become old."""


@frozen
class BoardSources:
    """What a board shows; all of it is asked in the manager's event loop."""

    status: Callable[[], ManagerStatus]
    runners: Callable[[], Sequence[Runner[Any]]]
    replica: Callable[[], Replica | None]
    clock: Clock
    version: str
    name: str
    identity: Callable[[], str]
    ready: Callable[[], bool] = lambda: True
    certificate_days: Callable[[], float | None] = lambda: None


class Onlooker(Protocol):
    """Who is told of changes; neither may raise."""

    def stirred(self) -> None:
        """Something has changed: `refresh` finds out what."""
        ...

    def changed(self, rows: Collection[int]) -> None:
        """These rows have changed, or are gone."""
        ...


@define(eq=False)
class StatusBoard:
    sources: BoardSources
    epoch: int = field(default=0, init=False)
    """Changes with the set of controllers: what was sent before counts no more."""
    controllers: list[ControllerRows] = field(factory=list, init=False)
    rows: dict[int, ObjectRow] = field(factory=dict, init=False)
    _onlookers: dict[Onlooker, None] = field(factory=dict, init=False)
    _numbers: "count[int]" = field(factory=lambda: count(1), init=False)
    _around: Around | None = field(default=None, init=False)
    _ready: bool = field(default=False, init=False)
    _offset: float = field(default=0.0, init=False)
    _held: object = field(default=None, init=False)
    """What this replica holds, where objects are shared."""
    _signatures: list[object] = field(factory=list, init=False)
    _looked_at: float = field(default=float("-inf"), init=False)
    _surroundings_at: float = field(default=float("-inf"), init=False)
    _swept_at: float = field(default=float("-inf"), init=False)
    _timed: dict[ObjectRow, None] = field(factory=dict, init=False)
    """Rows with a time in their words."""

    # --- who looks --------------------------------------------------------------------------------

    def join(self, onlooker: Onlooker) -> None:
        if onlooker in self._onlookers:
            return
        self._onlookers[onlooker] = None
        self._follow_controllers()

    def leave(self, onlooker: Onlooker) -> None:
        """With the last onlooker everything goes."""
        self._onlookers.pop(onlooker, None)
        if not self._onlookers:
            self._end()

    def stirred(self) -> None:
        for onlooker in self._onlookers:
            onlooker.stirred()

    def _end(self) -> None:
        for controller in self.controllers:
            controller.leave()
        self.controllers, self._signatures = [], []
        self.rows.clear()
        self._timed.clear()

    def _follow_controllers(self) -> None:
        runners = list(self.sources.runners())
        if [each.runner for each in self.controllers] == runners and self.epoch:
            return
        self._end()
        self.epoch += 1
        for number, runner in enumerate(runners):
            controller = ControllerRows(RowMaker.of(runner, number), self._numbers, self.stirred)
            self.controllers.append(controller)
            controller.follow()
        self._looked_at = self._surroundings_at = float("-inf")

    # --- what has changed -------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Judge anew what has changed, in slices; onlookers are told which rows."""
        self.look()
        pace = LoopSlice()
        pace.start()
        with collector_paused():
            while (controller := self._behind()) is not None:
                while controller.behind:
                    self._judge(controller)
                    if pace.due():
                        await pace.pause()
                        if not self._onlookers:
                            return
                        self.look()
                        break

    def _behind(self) -> ControllerRows | None:
        return next((controller for controller in self.controllers if controller.behind), None)

    def _judge(self, controller: ControllerRows) -> None:
        row = controller.step()
        if row is None:
            return
        if controller.rows.get(row.request) is row:
            self.rows[row.id] = row
        else:
            self.rows.pop(row.id, None)
            self._timed.pop(row, None)
        self._tell((row.id,))

    def look(self) -> None:
        """Find what changes without a call: the controllers, pauses, storms, leadership, outages, time."""
        self._follow_controllers()
        now = anyio.current_time()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        for controller in self.controllers:
            controller.look()
        self._offset = self.sources.clock.now().timestamp() - now
        if now - self._surroundings_at >= SURROUNDINGS_SECONDS:
            self._surroundings_at = now
            status = self.sources.status()
            self._around = around_of(status, self.sources.replica())
            self._ready = self.sources.ready()
            self._list_again_where_shared(status.sharding)
        assert self._around is not None
        signatures = [_signature(self._around, each.runner) for each in self.controllers]
        for controller, before, after in zip(self.controllers, self._signatures, signatures, strict=False):
            if before != after:
                self._rewrite(controller.rows.values())
        self._signatures = signatures
        if now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = now
            self._rewrite([row for row in self._timed if row.stale <= now])

    def _list_again_where_shared(self, sharding: ShardingStatus | None) -> None:
        """Judge all objects anew where buckets have come or gone: their objects may stay in the cache."""
        held = None if sharding is None else (tuple(sharding.held), tuple(sharding.closing), sharding.leads)
        if held != self._held:
            self._held = held
            for controller in self.controllers:
                controller.list_again()

    def _rewrite(self, rows: Iterable[ObjectRow]) -> None:
        # As one, since it may be all: told of each of 20,000 rows, eight viewers would hold the event loop.
        numbers: dict[int, None] = {}
        for row in rows:
            row.text = None
            numbers[row.id] = None
        if numbers:
            self._tell(numbers)

    def _tell(self, rows: Collection[int]) -> None:
        for onlooker in self._onlookers:
            onlooker.changed(rows)

    # --- what is shown ----------------------------------------------------------------------------

    def order(self) -> dict[int, None]:
        """All rows, those first that are most worth a look."""
        ranks: list[list[int]] = [[] for _ in HEALTHS]
        for row in self.rows.values():
            ranks[row.rank].append(row.id)
        return dict.fromkeys(chain.from_iterable(ranks))

    def text_of(self, row: ObjectRow) -> bytes | None:
        """A row as JSON; None if its object is gone meanwhile."""
        if row.text is not None:
            return row.text
        assert self._around is not None
        text = row.maker.write(row, anyio.current_time(), self.unix, self._around)
        if row.stale < inf:
            self._timed[row] = None
        else:
            self._timed.pop(row, None)
        return text

    def unix(self, at: float) -> float:
        """The wall time of a time of the event loop, as the clock was at the last look."""
        return at + self._offset

    def hello(self) -> Mapping[str, Any]:
        sources = self.sources
        return {
            "version": sources.version,
            "name": sources.name,
            "identity": sources.identity(),
            "now": round(self.unix(anyio.current_time()), 3),
            "controllers": [controller.runner.name for controller in self.controllers],
        }

    def overview(self) -> Mapping[str, Any]:
        """The state of the whole, as it is now."""
        sources, now = self.sources, anyio.current_time()
        return overview_of(
            sources.status(),
            self.controllers,
            now=now,
            unix_now=round(self.unix(now), 3),
            ready=self._ready,
            certificate_days=sources.certificate_days(),
        )


def _signature(around: Around, runner: Runner[Any]) -> object:
    """What concerns all keys of a controller; times left out."""
    cluster = around.clusters.get(runner.cluster)
    reached = cluster is None or (cluster.reachable, cluster.works)
    missing = tuple(around.missing.get(runner.cluster, ()))
    return around.leading, around.leader, reached, missing, runner.working
