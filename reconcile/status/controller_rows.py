"""One controller's rows while a browser shows the page: which objects there are, and which have changed."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from informers import Delta, Snapshot
from reconcile.controller.runner import Runner
from reconcile.runs.run_request import Request
from reconcile.status.object_health import HEALTHS
from reconcile.status.object_rows import ObjectRow, RowMaker


@define(eq=False)
class ControllerRows:
    """Follows one controller from `follow` to `leave`; `numbers` gives ids, `stirred` is called on changes.

    Nothing is computed when a change happens: its key is noted, and `step` takes it from there.
    """

    maker: RowMaker
    numbers: Iterator[int]
    stirred: Callable[[], None]
    rows: dict[Request, ObjectRow] = field(factory=dict, init=False)
    counts: list[int] = field(factory=lambda: [0] * len(HEALTHS), init=False)
    failing: int = field(default=0, init=False)
    """Keys with failures that count."""
    _noted: dict[Request, None] = field(factory=dict, init=False)
    _listed: deque[Snapshot] = field(factory=deque, init=False)
    _paused: frozenset[Request] = field(default=frozenset(), init=False)
    _storming: frozenset[Request] = field(default=frozenset(), init=False)
    _undo: list[Callable[[], None]] = field(factory=list, init=False)

    @property
    def runner(self) -> Runner[Any]:
        return self.maker.runner

    @property
    def behind(self) -> bool:
        """Whether there is something for `step`."""
        return bool(self._noted or self._listed)

    def follow(self) -> None:
        """Follow the controller, if it is connected; all of its objects are noted first."""
        runner, informer = self.runner, self.maker.informer
        if informer is None:
            return
        self._undo.append(informer.add_handler(self._changed, present=False).remove)
        if runner.history.ends is not None:
            self._undo.append(runner.history.ends.follow(self.note))
        runner.queue.on_add = self.note
        self.list_again()

    def list_again(self) -> None:
        """Note all objects."""
        if self.maker.informer is not None:
            # Not their keys: to make 20,000 of these at once would hold the event loop.
            self._listed = deque(self.maker.informer.store.list())
            self.stirred()

    def leave(self) -> None:
        self.runner.queue.on_add = None
        for undo in self._undo:
            undo()
        self._undo.clear()

    def note(self, request: Request) -> None:
        """A key may have another row now. Called for each change and run, so it does nothing else."""
        self._noted[request] = None
        self.stirred()

    def look(self) -> None:
        """Note the keys that were paused, resumed, slowed down or freed: nothing is called for these."""
        paused = frozenset(self.runner.resting)
        storming = frozenset(storm.request for storm in self.runner.guard.storms())
        for request in (paused ^ self._paused) | (storming ^ self._storming):
            self.note(request)
        self._paused, self._storming = paused, storming

    def step(self) -> ObjectRow | None:
        """Judge one noted object anew; returns its row, which has changed, or is gone from `rows`."""
        if self._noted:
            request, _ = self._noted.popitem()
        else:
            request = Request(*self._listed.popleft().key, self.runner.cluster)
        snapshot = self.maker.object_of(request)
        row = self.rows.get(request)
        if row is not None:
            self._count(row, -1)
        if snapshot is None or not self.maker.is_shown(snapshot, request):
            return self.rows.pop(request, None)
        if row is None:
            row = self.rows[request] = ObjectRow(self.maker, next(self.numbers), request)
        self.maker.judge(row, snapshot)
        self._count(row, 1)
        return row

    def _count(self, row: ObjectRow, by: int) -> None:
        self.counts[row.rank] += by
        self.failing += by * (row.failures > 0)

    @property
    def elsewhere(self) -> int:
        """Objects of the cache that other replicas work on; 0 where a selector leaves some out too."""
        informer = self.maker.informer
        if informer is None or self.runner.controller.selector or self.behind:
            return 0
        return max(0, len(informer.store) - len(self.rows))

    def _changed(self, delta: Delta) -> None:
        if not delta.resync:
            self.note(Request(*delta.last.key, self.runner.cluster))
