"""One run of one controller for one key, from the cached object to the result."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence, Set
from contextlib import closing
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
import structlog
from attrs import define, evolve, field

from informers import APIResource, Informer, NotFound, Snapshot, StaleVersion
from informers.cancellation import as_failure
from informers.functions import is_async, name_of
from reconcile.client import redaction
from reconcile.client.client import Client, bound, core_of, of_controller, reads_of
from reconcile.client.guarded_writes import BucketNotHeld
from reconcile.client.object_indexes import IndexedReads
from reconcile.client.own_writes import Journal
from reconcile.client.redaction import DeclaredFields
from reconcile.controller.blocking import Blocking, RunEnded, Threads
from reconcile.controller.context import Context, output_of
from reconcile.controller.deadlines import Deadlines, RunLimit
from reconcile.controller.declaration import DEFAULT_TIMEOUT, Controller
from reconcile.controller.declared_secrets import declared_secrets
from reconcile.controller.declared_writes import DeclaredWrites, Undeclared
from reconcile.controller.event_recorder import Recorder
from reconcile.controller.held_buckets import HeldBuckets, HeldRun, HeldRuns
from reconcile.controller.rehearsals import dry, dry_elsewhere
from reconcile.controller.run_observer import RunObserver
from reconcile.controller.run_output import RunOutput
from reconcile.controller.run_result import ReconcileTimeout, RunResult, all_are, checked_result
from reconcile.controller.takeover_selection import TakeoverSelection, takeover_of
from reconcile.controller.tombstones import Tombstones
from reconcile.models import Object, kind_of
from reconcile.runs.run_failures import described
from reconcile.runs.run_record import RunRecord
from reconcile.runs.run_request import Cause, Request, Result, TerminalError
from reconcile.storms import Echoes
from reconcile.storms.echoes import EchoObserver

T = TypeVar("T", bound=Object)

_DONE = Result()
_IDS = 1 << 32

REPORT_SECONDS = 5.0
"""Seconds for writing the status of a run that took too long."""


@define
class RunExecutor(Generic[T]):
    """Executes the runs of one controller, one at a time for each key; remembers the unseen writes of keys.

    It needs only a client, so that a unit test and a manager execute the same lines. With `rendering` the
    records of runs have the desired state. With `debug` each run is rehearsed first, with nothing carried
    out; a run whose desired state then differs fails (`NondeterministicRun`). `undeclared` writes are refused
    or logged. `selection` limits the objects to those of a takeover.

    A run may take `timeout` seconds; 0: the controller's limit, or the default. `client_of` gives the client
    of another cluster by its name; raises LookupError. `on_wait` gets the seconds of each wait for own
    writes, and whether it failed. With `held`, objects are shared among replicas: only those in buckets that
    are held are reconciled. `epoch_of` gives the epoch of the only manager that works, where it leads.
    `observer` gets each run, from its first step on.
    """

    controller: Controller[T]
    client: Client
    recorder: Recorder
    log: structlog.stdlib.BoundLogger
    blocking: Blocking = field(factory=Threads)
    timeout: float = 0.0
    client_of: Callable[[str], Client] | None = None
    on_wait: Callable[[float, bool], None] | None = None
    rendering: bool = False
    debug: bool = False
    undeclared: Undeclared = "warn"
    selection: TakeoverSelection | None = None
    held: HeldBuckets | None = None
    epoch_of: Callable[[], int] = lambda: 0
    observer: RunObserver | None = None
    resource: APIResource = field(init=False)
    declarations: DeclaredWrites = field(init=False)
    tombstones: Tombstones[T] = field(init=False)
    echoes: Echoes = field(init=False)
    deadlines: Deadlines = field(init=False)
    indexed: IndexedReads = field(init=False)
    secret_fields: DeclaredFields = field(init=False)
    runs: HeldRuns | None = field(init=False)
    """The runs under way, with `held`."""
    _plain: Sequence[Any] = field(init=False)
    journals: dict[Request, Journal] = field(factory=dict, init=False)
    _distant: dict[tuple[Request, str], Journal] = field(factory=dict, init=False)
    _written_in: dict[Request, int] = field(factory=dict, init=False)
    """With `held`, the bucket of each key whose writes are remembered."""

    def __attrs_post_init__(self) -> None:
        controller = self.controller
        self.timeout = self.timeout or controller.timeout or DEFAULT_TIMEOUT
        self.deadlines = Deadlines(self.timeout)
        self.resource = kind_of(controller.kind).resource
        self.declarations = DeclaredWrites(controller, self.log, self.undeclared == "refuse")
        self.indexed = IndexedReads(controller.indexes, controller.name)
        self.secret_fields = declared_secrets([controller])
        self.client = of_controller(self.client, self.indexed, self.secret_fields)
        self.tombstones = Tombstones(controller.kind, controller.on_deleted, self.held)
        self.runs = None if self.held is None else HeldRuns(self.held)
        self.echoes = Echoes({kind_of(kind).resource for kind in controller.waking_kinds})
        functions = controller.reconcile, controller.cleanup, controller.on_terminating
        self._plain = [function for function in functions if function is not None and not is_async(function)]

    def mark_applies(self, informer: Informer) -> None:
        """Have an informer mark the applies of runs on its objects; to be called before they come."""
        if self.declarations.may_apply(informer.resource):
            for manager in (self.controller.field_manager, *self.controller.former_field_managers):
                informer.mark_applies(manager)

    def limit(self) -> RunLimit:
        """The time limit of runs, for a task that does run after run; the task closes it."""
        return RunLimit(self.deadlines)

    async def run(
        self, request: Request, causes: Sequence[Cause] = (), attempt: int = 0, limit: RunLimit | None = None
    ) -> RunResult:
        """Reconcile `request` once. Every failure is in the result; only cancellation is raised.

        A CancelledError that was not requested, and SystemExit, are failures of the run (`Interrupted`).
        """
        if limit is None:
            with closing(self.limit()) as limit:
                return await self.run(request, causes, attempt, limit)
        journal = self.journals.get(request)
        if journal is None:
            journal = self.journals[request] = Journal(self.on_wait)
        client = self._bound(self.client, journal, request)
        core = core_of(client)
        record = core.run
        if self.rendering or self.debug:
            record.rendered = {}
        if core.cache is not None:
            causes = self.echoes.begin(request, causes)
        record.causes = causes
        on, epoch = self.observer, self.epoch_of()
        watched = None if on is None else on.began(request, causes, attempt, epoch)
        reconcile_id = f"{int(core.clock.random() * _IDS):08x}"
        bind_log = partial(self._bound_log, request, reconcile_id)
        held = None if self.runs is None else self.runs.begin(request, record, limit)
        run = ReconcileRun(self, request, client, record, bind_log, reconcile_id, limit, attempt, held)
        hidden = redaction.seen.set(core.secrets)
        cancels = limit.task.cancelling()
        try:
            # The order matters. Own writes first, or the run decides on a state without them; outside of the
            # limit, since this wait is bounded by itself and a run cut short here would only begin to wait
            # anew.
            if journal:
                await reads_of(client).settle()
            with limit:
                # Tombstones before the object: a namesake may have the key by now, and comes after its
                # predecessor.
                if self.tombstones.wanted:
                    await self.tombstones.deliver(request, client, bind_log(), held)
                result = await run.reconcile()
                return run.ended(result)
            if held is not None and held.cancelled:
                ended = BucketNotHeld("the run was ended: another replica gets the bucket of its object")
                return run.ended(error=ended.with_traceback(limit.struck()))
            await run.report_late()
            late = ReconcileTimeout(f"took longer than {self.timeout:g} s").with_traceback(limit.struck())
            return run.ended(error=late)
        except BaseException as raised:
            error = as_failure(raised, "the run", cancels)
            try:
                if error is None:
                    raise
                if all_are(error, StaleVersion):
                    why = core.redacted(str(error))
                    bind_log().info("worked on an old state; running again", error=why)
                    return run.ended(stale=True)
                return run.ended(error=error)
            finally:
                del error  # its traceback has this frame: each would keep the other alive for the collector
        finally:
            self.echoes.end(request, wrote=bool(record.writes))
            redaction.seen.reset(hidden)
            if watched is not None:
                watched.ended(run.outcome)
            run.outcome = None  # its error's traceback has this frame
            # Only now, when nothing of the run writes any more: a key without unseen writes takes no memory.
            if not journal:
                self.journals.pop(request, None)
            if self._distant:
                distant = self._distant.items()
                self._distant = {place: kept for place, kept in distant if kept or place[0] != request}
            if held is not None:
                self._end(held)

    def _end(self, run: HeldRun) -> None:
        """End a run that works under a tenure, after its last write."""
        run.end()
        request, tenure = run.request, run.record.tenure
        if run.given_up:
            self.forget_where(lambda other: other == request)
        elif not self._remembers(request):
            self._written_in.pop(request, None)
        elif tenure is not None:
            self._written_in[request] = tenure.bucket

    def written_in(self, buckets: Collection[int]) -> Set[Request]:
        """The keys whose last run has written in one of these buckets, if its writes are remembered."""
        return {request for request, bucket in self._written_in.items() if bucket in buckets}

    def distrust_cache(self) -> None:
        """Have the cache of each kind prove again that it is up to date, before what cannot be undone."""
        core_of(self.client).freshness.reset()

    async def settle(self, requests: Set[Request]) -> None:
        """Wait until the caches show the writes of some keys. Raises CacheBehind, and errors of reads."""
        for request, journal in [*self.journals.items()]:
            if request in requests:
                await reads_of(self._bound(self.client, journal, request)).settle()
        for (request, cluster), journal in [*self._distant.items()]:
            if request in requests and self.client_of is not None:
                await reads_of(self._bound(self.client_of(cluster), journal, request)).settle()

    def forget_where(self, is_gone: Callable[[Request], bool]) -> None:
        """Forget the writes of some keys."""
        for request in [request for request in self.journals if is_gone(request)]:
            del self.journals[request]
        self._distant = {place: kept for place, kept in self._distant.items() if not is_gone(place[0])}
        self.echoes.forget_where(is_gone)
        for request in [request for request in self._written_in if not self._remembers(request)]:
            del self._written_in[request]

    def _remembers(self, request: Request) -> bool:
        """Whether a cache may not show yet what a key has written."""
        return request in self.journals or any(place[0] == request for place in self._distant)

    async def call(self, function: Any, context: Context[T]) -> Result | None:
        """Call a function of the author: an `async def` here, a plain one in a thread."""
        if function not in self._plain:
            return checked_result(await function(context), function)
        from reconcile.controller.synchronous import SyncContext

        try:
            answer = await self.blocking.call_with_loop(
                lambda ask: function(SyncContext(context, ask)), context.log
            )
        except RunEnded:
            raise RuntimeError("its blocking code was ended from outside") from None
        if isinstance(answer, Awaitable):
            if isinstance(answer, Coroutine):
                answer.close()  # else Python warns, later and elsewhere, that it was never awaited
            raise TerminalError(
                f"{name_of(function)} is a plain function that returns something to await: use `async def`"
            )
        return checked_result(answer, function)

    def client_elsewhere(self, request: Request, client: Client, cluster: str) -> Client:
        """The client of another cluster, for the run of `client`: bound to the same key and its secrets."""
        if self.client_of is None:
            raise LookupError(f"there is no cluster {cluster!r}: the manager has one cluster only")
        journal = self._distant.setdefault((request, cluster), Journal(self.on_wait))
        there = of_controller(self.client_of(cluster), self.indexed, self.secret_fields)
        return self._bound(there, journal, request, client)

    def _bound(
        self, client: Client, journal: Journal, request: Request, beside: Client | None = None
    ) -> Client:
        controller = self.controller
        names = controller.field_manager, controller.former_field_managers
        # Without a cache no watch brings echoes, and the expected ones would never be forgotten.
        echoes = () if self.client.cache is None else (EchoObserver(self.echoes, request),)
        observers = self.declarations, *echoes
        return bound(client, journal, *names, beside, observers, controller.former_updaters)

    def _bound_log(self, request: Request, reconcile_id: str) -> structlog.stdlib.BoundLogger:
        return self.log.bind(key=str(request), reconcile_id=reconcile_id)


@define(eq=False)
class ReconcileRun(Generic[T]):
    """One run: the object, finalizers, the author's function, the status. `reconcile` may be called once.

    `bind_log` is not a method: a context keeps it, and would keep the run that keeps the context.
    """

    executor: RunExecutor[T]
    request: Request
    client: Client
    record: RunRecord
    bind_log: Callable[[], structlog.stdlib.BoundLogger]
    reconcile_id: str
    limit: RunLimit
    attempt: int = 0
    held: HeldRun | None = None
    outcome: RunResult | None = field(default=None, init=False)
    """How it ended; None until then, and where it was cancelled."""
    _contexts: list[Context[T]] = field(factory=list, init=False)

    def ended(
        self, result: Result = _DONE, error: Exception | None = None, *, stale: bool = False
    ) -> RunResult:
        secrets = core_of(self.client).secrets
        self.outcome = RunResult(
            result,
            error,
            stale,
            self.reconcile_id,
            redact=secrets.redact,
            secretive=bool(secrets),
            record=self.record,
            secrets=secrets,
        )
        return self.outcome

    async def reconcile(self) -> Result:
        """Handle the object by its state. Raises what the author's function raises."""
        executor = self.executor
        self.record.primary_resource = executor.resource
        snapshot = self.record.primary = await reads_of(self.client).snapshot(
            executor.resource, self.request.key
        )
        if snapshot is None or not await self._is_kept(snapshot):
            return _DONE
        if self.held is None:
            return await self._handle(snapshot)
        with self.held.on(snapshot) as may_run:
            return await self._handle(snapshot) if may_run else _DONE

    async def _handle(self, snapshot: Snapshot) -> Result:
        executor = self.executor
        controller = executor.controller
        if snapshot.terminating:
            return await self._clean_up(snapshot)
        takeover = await takeover_of(controller, self.client, snapshot, executor.recorder)
        result = await self._carry_out(snapshot)
        if takeover is not None and not any(output_of(context).is_partial for context in self._contexts):
            await takeover.finish()
        return result

    async def _carry_out(self, snapshot: Snapshot) -> Result:
        executor, controller = self.executor, self.executor.controller
        # The finalizer goes on before the author's function makes anything that a cleanup would have to find.
        if controller.finalizers:
            # The present finalizer replaces the former ones.
            desired = [*self._foreign_finalizers(snapshot), *filter(None, [controller.finalizer])]
            if {*desired} != {*snapshot.finalizers}:
                snapshot = await self._set_finalizers(snapshot, desired)
        if executor.debug:
            return await self._call_twice(snapshot)
        return await self._call(controller.reconcile, self._context(snapshot))

    async def report_late(self) -> None:
        """Write the collected status although the run took too long."""
        with anyio.move_on_after(REPORT_SECONDS):
            for context in self._contexts:
                if not output_of(context).reported:
                    await self._report(context, failed=True)

    async def _is_kept(self, snapshot: Snapshot) -> bool:
        """Whether controller and manager keep the object; one that we hold is released in any case."""
        if not self.executor.controller.keeps(snapshot):
            return False
        selection = self.executor.selection
        return (
            selection is None
            or (snapshot.terminating and self._holds(snapshot))
            or await selection.holds(snapshot, self.client)
        )

    def _context(
        self,
        snapshot: Snapshot,
        *,
        rehearsal: bool = False,
        generated: dict[str, str] | None = None,
    ) -> Context[T]:
        executor, client, limit = self.executor, self.client, self.limit
        client_of = partial(executor.client_elsewhere, self.request, client)
        if rehearsal:
            client, client_of = dry(client), partial(dry_elsewhere, client_of)
            rehearsed = core_of(client).run
            rehearsed.primary, rehearsed.tenure = self.record.primary, self.record.tenure
        context = Context(
            RunOutput(executor.controller.kind, snapshot, client, generated),
            self.request,
            self.bind_log,
            blocking=executor.blocking,
            causes=tuple(self.record.causes),
            attempt=self.attempt,
            deadline=limit.deadline,
            now=limit.now,
            epoch=executor.epoch_of() if self.record.tenure is None else self.record.tenure.epoch,
            client_of=client_of,
            owns=executor.controller.owns,
        )
        if not rehearsal:
            self._contexts.append(context)
        return context

    async def _call(self, function: Any, context: Context[T]) -> Result:
        """Call the author's function; the collected status is written even if it fails."""
        executor, output = self.executor, output_of(context)
        cancels = self.limit.task.cancelling()
        try:
            result = await executor.call(function, context)
            if executor.rendering or executor.debug:
                output.note_desired()
            # Before the status, which may say what there is now.
            if deleted := await output.carry_out_prune():
                context.log.info("pruned children that are no longer desired", deleted=deleted)
        except BaseException as raised:
            error = as_failure(raised, name_of(function), cancels)
            try:
                if error is None:
                    raise
                if not all_are(error, StaleVersion):
                    await self._report(context, failed=True)
                if error is raised:
                    raise
                raise error from raised
            finally:
                del error  # as in `RunExecutor.run`
        if not output.is_empty:
            await self._report(context, failed=False)
        return result or _DONE

    async def _call_twice(self, snapshot: Snapshot) -> Result:
        """Rehearse, run, and compare the desired states. A failed rehearsal is not compared."""
        function = self.executor.controller.reconcile
        rehearsal = self._context(snapshot, rehearsal=True)
        output, record = output_of(rehearsal), core_of(rehearsal.client).run
        record.rendered = {}
        try:
            await self.executor.call(function, rehearsal)
            output.note_desired()
        except Exception as error:
            why = core_of(rehearsal.client).redacted(described(error))
            rehearsal.log.debug("the rehearsal of a run failed", error=why)
            return await self._call(function, self._context(snapshot, generated=output.generated))
        context = self._context(snapshot, generated=output.generated)
        result = await self._call(function, context)
        from reconcile.storms.determinism import check_renderings

        done = self.record
        check_renderings((record.rendered, record.writes), (done.rendered or {}, done.writes))
        return result

    async def _report(self, context: Context[T], *, failed: bool) -> None:
        output = output_of(context)
        output.reported = True
        redact = core_of(self.client).redacted
        try:
            for event in output.events:
                self.executor.recorder.record(context.object, evolve(event, message=redact(event.message)))
            await output.write_status()
        except NotFound:
            return
        except Exception as error:
            # The error of the run itself comes first; this one only where there is no other.
            if not failed:
                raise
            context.log.warning("the status of a failed run could not be written", error=redact(str(error)))

    # --- finalizers -------------------------------------------------------------------------------

    def _holds(self, snapshot: Snapshot) -> bool:
        return any(finalizer in snapshot.finalizers for finalizer in self.executor.controller.finalizers)

    def _foreign_finalizers(self, snapshot: Snapshot) -> Sequence[str]:
        return [name for name in snapshot.finalizers if name not in self.executor.controller.finalizers]

    async def _clean_up(self, snapshot: Snapshot) -> Result:
        """Call the controller's function for an object that is being deleted; then remove our finalizer."""
        controller, held = self.executor.controller, self._holds(snapshot)
        result = _DONE
        if controller.on_terminating is not None:
            result = await self._call(controller.on_terminating, self._context(snapshot))
        elif controller.cleanup is not None and held:
            result = await self._call(controller.cleanup, self._context(snapshot))
            if result.wants_run:
                return result
        if not held:
            return result
        # Read anew: the cleanup may have taken long or written itself, and a stale list would restore
        # finalizers.
        fresh = await reads_of(self.client).snapshot(self.executor.resource, snapshot.key)
        if fresh is not None and fresh.uid == snapshot.uid:
            rest = self._foreign_finalizers(fresh)
            if len(rest) < len(fresh.finalizers):
                await self._set_finalizers(fresh, rest)
        return result

    async def _set_finalizers(self, snapshot: Snapshot, finalizers: Sequence[str]) -> Snapshot:
        # A merge patch replaces the whole list, so it holds for the version that it was computed from alone.
        guard = {"uid": snapshot.uid, "resourceVersion": str(snapshot.version)}
        patch = {"metadata": {"finalizers": list(finalizers)}}
        return await self.client.raw.patch(self.executor.resource, snapshot.key, patch, guard=guard)
