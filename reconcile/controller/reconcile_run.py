"""One run of one controller for one key, from the cached object to what should happen next."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import closing
from functools import partial
from traceback import format_exception
from typing import Any, Generic, Literal, TypeVar

import anyio
import structlog
from attrs import define, evolve, field, frozen

from informers import APIResource, Informer, NotFound, Snapshot, StaleVersion
from informers.cancellation import as_failure, cancel_requests, leaf_errors
from informers.functions import is_async, name_of
from reconcile.client import redaction
from reconcile.client.client import Client, bound, core_of, reads_of
from reconcile.client.own_writes import Journal, NoJournal
from reconcile.controller.blocking import Blocking, RunEnded, Threads
from reconcile.controller.context import Context, output_of
from reconcile.controller.deadlines import Deadlines, RunLimit
from reconcile.controller.declaration import DEFAULT_TIMEOUT, Controller
from reconcile.controller.declared_writes import DeclaredWrites
from reconcile.controller.event_recorder import Recorder
from reconcile.controller.run_output import RunOutput
from reconcile.controller.synchronous import SyncContext
from reconcile.controller.takeover_selection import TakeoverSelection
from reconcile.controller.tombstones import Tombstones
from reconcile.models import DecodeError, Object, kind_of
from reconcile.runs.run_failures import Failed, Member, described, identity_of, members_of, place_text
from reconcile.runs.run_record import RunRecord
from reconcile.runs.run_request import Cause, Request, Result, TerminalError
from reconcile.storms import Echoes
from reconcile.storms.determinism import (
    NondeterministicRun,
    rendering_differences,
    reordered_lists,
    without_server_set,
)
from reconcile.storms.echoes import EchoObserver

T = TypeVar("T", bound=Object)


_DONE = Result()
_IDS = 1 << 32

REPORT_SECONDS = 5.0
"""So long the status of a run that took too long may take to be written."""

ResultName = Literal["success", "error", "requeue", "requeue_after"]


class ReconcileTimeout(Exception):
    """A run took longer than the controller allows."""


@frozen
class RunResult:
    """What a run came to: `result`, or the `error` that it failed with.

    `stale` is true where the run stopped because it had worked on an old state: it is repeated at
    once, and has not failed. `reconcile_id` is what its log lines carry. `redact` takes what Secrets
    hold out of the texts, and `secretive` says that the run has seen any. `record` has what it read and
    wrote.
    """

    result: Result = field(factory=Result)
    error: Exception | None = None
    stale: bool = False
    reconcile_id: str = ""
    redact: Callable[[str], str] = field(default=str, repr=False, eq=False)
    secretive: bool = field(default=False, repr=False, eq=False)
    record: RunRecord | None = field(default=None, repr=False, eq=False)

    @property
    def terminal(self) -> bool:
        """Whether trying again will not help until something changes."""
        return self.error is not None and _all_are(self.error, TerminalError, DecodeError)

    @property
    def repeated(self) -> bool:
        """Whether the runtime runs the key again without being asked: it failed, or its state was old."""
        return self.stale or self.error is not None

    @property
    def name(self) -> ResultName:
        """How the run ended, in controller-runtime's words; one on an old state runs again at once."""
        if self.error is not None:
            return "error"
        if self.stale or self.result.requeue:
            return "requeue"
        return "success" if self.result.requeue_after is None else "requeue_after"

    @property
    def message(self) -> str:
        """The error as a log line says it, and those of a group; empty if there is none."""
        return "" if self.error is None else self.redact(described(self.error))

    @property
    def at(self) -> str:
        """Where the error was raised: file and line of the author's innermost frame; empty if nowhere."""
        return place_text(self.error)

    @property
    def members(self) -> Sequence[Member]:
        """The first errors of a group, each with its place."""
        return [one._replace(error=self.redact(one.error)) for one in members_of(self.error)]

    @property
    def traceback(self) -> str:
        """Where the error came from, as Python prints it."""
        return "" if self.error is None else self.redact("".join(format_exception(self.error)))

    @property
    def failed(self) -> Failed:
        """What is logged of its error. Raises ValueError if there is none."""
        error = self.error
        if error is None:
            raise ValueError("the run has not failed")
        shown = redaction.veiled(error, self.redact) if self.secretive else error
        return Failed(identity_of(error), self.message, self.at, self.traceback, shown)


@define
class RunExecutor(Generic[T]):
    """Runs a controller, one pass at a time for each key; remembers what each key has written.

    With `rendering` the records of runs tell what was wanted. With `debug` each reconcile is rehearsed
    first, with nothing carried out; a run whose desired state differs then fails (`NondeterministicRun`).

    A run may take `timeout` seconds; 0: what the controller says, or the default. `client_of` gives the
    client of another cluster, by its name; raises LookupError.
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
    selection: TakeoverSelection | None = None
    declarations: DeclaredWrites = field(init=False)
    tombstones: Tombstones[T] = field(init=False)
    echoes: Echoes = field(factory=Echoes, init=False)
    deadlines: Deadlines = field(init=False)
    _resource: APIResource = field(init=False)
    _plain: Sequence[Any] = field(default=(), init=False)
    _journals: dict[Request, Journal] = field(factory=dict, init=False)
    _distant: dict[tuple[Request, str], Journal] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.timeout = self.timeout or self.controller.timeout or DEFAULT_TIMEOUT
        self.deadlines = Deadlines(self.timeout)
        self._resource = kind_of(self.controller.kind).resource
        self.declarations = DeclaredWrites(self.controller, self.log)
        self.tombstones = Tombstones(self.controller.kind, self.controller.on_deleted)
        given = self.controller.reconcile, self.controller.cleanup, self.controller.on_terminating
        self._plain = [function for function in given if function is not None and not is_async(function)]

    def follow(self, informer: Informer) -> None:
        """Have what runs applied marked on the objects of an informer, before the first of them comes."""
        if self.declarations.may_apply(informer.resource):
            for manager in (self.controller.field_manager, *self.controller.former_field_managers):
                informer.mark_applies(manager)

    def limit(self) -> RunLimit:
        """How long each run may take, for a task that does run after run; it closes it."""
        return RunLimit(self.deadlines)

    async def run(
        self, request: Request, causes: Sequence[Cause] = (), attempt: int = 0, limit: RunLimit | None = None
    ) -> RunResult:
        """Reconcile `request` once. Every failure is in the outcome; only cancellation is raised.

        A CancelledError that nothing asked for, and SystemExit, are failures of the run (`Interrupted`).
        """
        if limit is None:
            with closing(self.limit()) as limit:
                return await self.run(request, causes, attempt, limit)
        journal = self._journals.get(request)
        if journal is None:
            journal = self._journals[request] = Journal(self.on_wait)
        client = self._bound(self.client, journal, request)
        core = core_of(client)
        record = core.run
        if self.rendering or self.debug:
            record.rendered = {}
        if client.cache is not None:
            causes = self.echoes.begin(request, causes)
        record.causes = causes
        reconcile_id = f"{int(client.clock.random() * _IDS):08x}"
        bind_log = partial(self._log_of, request, reconcile_id)
        hidden = redaction.seen.set(core.secrets)
        made: list[Context[T]] = []
        cancels = cancel_requests()
        try:
            if journal:
                # Bounded by itself: a run that is cut short here would only begin to wait anew.
                await reads_of(client).settle()
            with limit as deadline:
                if self.controller.on_deleted is not None:
                    await self.tombstones.tell(request, client, bind_log())
                make = partial(self._context, made, request, client, bind_log, causes, attempt, deadline)
                result = await self._pass(request, client, record, make)
                return RunResult(result, reconcile_id=reconcile_id, record=record)
            await self._report_late(made)
            late = ReconcileTimeout(f"took longer than {self.timeout:g} s").with_traceback(limit.struck())
            return self._failed(late, reconcile_id, client, record)
        except BaseException as raised:
            error = as_failure(raised, "the run", cancels)
            try:
                if error is None:
                    raise
                if _all_are(error, StaleVersion):
                    why = core.redacted(str(error))
                    bind_log().info("worked on an old state; running again", error=why)
                    return RunResult(stale=True, reconcile_id=reconcile_id, record=record)
                return self._failed(error, reconcile_id, client, record)
            finally:
                del error  # it has this frame in its traceback: each would keep the other for the collector
        finally:
            self.echoes.end(request, wrote=bool(record.writes))
            redaction.seen.reset(hidden)
            if not journal:
                self._journals.pop(request, None)
            if self._distant:
                self._forget_distant(request)

    def _bound(
        self, client: Client, journal: Journal, request: Request, beside: Client | None = None
    ) -> Client:
        """The client of one run, which writes under the names of the controller."""
        controller = self.controller
        names = controller.field_manager, controller.former_field_managers
        # Without a cache no watch brings echoes, and the expected ones would never be forgotten.
        echoes = () if self.client.cache is None else (EchoObserver(self.echoes, request),)
        return bound(client, journal, *names, beside, (self.declarations, *echoes))

    def _failed(self, error: Exception, reconcile_id: str, client: Client, record: RunRecord) -> RunResult:
        return RunResult(
            error=error,
            reconcile_id=reconcile_id,
            redact=core_of(client).redacted,
            secretive=bool(core_of(client).secrets),
            record=record,
        )

    def _log_of(self, request: Request, reconcile_id: str) -> structlog.stdlib.BoundLogger:
        return self.log.bind(key=str(request), reconcile_id=reconcile_id)

    def _client_elsewhere(self, request: Request, client: Client, cluster: str) -> Client:
        """The client of another cluster, for the run of `client`: bound to the same key and its secrets."""
        if self.client_of is None:
            raise LookupError(f"there is no cluster {cluster!r}: the manager has one cluster only")
        journal = self._distant.setdefault((request, cluster), Journal(self.on_wait))
        return self._bound(self.client_of(cluster), journal, request, client)

    def _forget_distant(self, request: Request) -> None:
        for place in [
            place for place, journal in self._distant.items() if place[0] == request and not journal
        ]:
            del self._distant[place]

    async def _pass(
        self, request: Request, client: Client, record: RunRecord, make: Callable[..., Context[T]]
    ) -> Result:
        controller = self.controller
        snapshot = record.primary = await reads_of(client).snapshot(self._resource, request.key)
        if snapshot is None or not await self._is_kept(snapshot, client):
            return _DONE
        if snapshot.terminating:
            return await self._clean_up(snapshot, make(snapshot))
        if controller.finalizers and not self._is_held_rightly(snapshot):
            snapshot = await self._set_finalizers(snapshot, self._finalizers_of(snapshot), client)
        if self.debug:
            return await self._call_twice(make, snapshot)
        return await self._call(controller.reconcile, make(snapshot))

    async def _is_kept(self, snapshot: Snapshot, client: Client) -> bool:
        """Whether controller and manager are for the object; what we hold we also let go."""
        if not self.controller.keeps(snapshot):
            return False
        return (
            self.selection is None
            or (snapshot.terminating and self._holds(snapshot))
            or await self.selection.holds(snapshot, client)
        )

    async def _call_twice(self, make: Callable[..., Context[T]], snapshot: Snapshot) -> Result:
        """Rehearse, run, and compare what was wanted. A rehearsal that fails is compared with nothing."""
        function, rehearsal = self.controller.reconcile, make(snapshot, rehearsal=True)
        output, record = output_of(rehearsal), core_of(rehearsal.client).run
        record.rendered = {}
        try:
            await self._invoke(function, rehearsal)
            output.note_desired()
        except Exception as error:
            why = core_of(rehearsal.client).redacted(described(error))
            rehearsal.log.debug("the rehearsal of a run failed", error=why)
            return await self._call(function, make(snapshot, generated=output.generated))
        context = make(snapshot, generated=output.generated)
        result = await self._call(function, context)
        done = core_of(context.client).run
        renderings = without_server_set((record.rendered, record.writes), (done.rendered or {}, done.writes))
        found = [*rendering_differences(*renderings), *reordered_lists(done.writes)]
        if found:
            raise NondeterministicRun(found)
        return result

    async def _invoke(self, function: Any, context: Context[T]) -> Result | None:
        if function in self._plain:
            return await self._visit(function, context)
        return _checked(await function(context), function)

    def _context(
        self,
        made: list[Context[T]],
        request: Request,
        client: Client,
        bind_log: Callable[[], structlog.stdlib.BoundLogger],
        causes: Sequence[Cause],
        attempt: int,
        deadline: float,
        snapshot: Snapshot,
        *,
        rehearsal: bool = False,
        generated: dict[str, str] | None = None,
    ) -> Context[T]:
        client_of = partial(self._client_elsewhere, request, client)
        if rehearsal:
            of_cluster = client_of
            client, client_of = _dry(client), partial(_dry_elsewhere, of_cluster)
        context = Context(
            RunOutput(self.controller.kind, snapshot, client, generated),
            request,
            bind_log,
            blocking=self.blocking,
            causes=causes,
            attempt=attempt,
            deadline=deadline,
            client_of=client_of,
            owns=self.controller.owns,
        )
        if not rehearsal:
            made.append(context)
        return context

    async def _call(self, function: Any, context: Context[T]) -> Result:
        """Run the author's function; what it said of its object is written even if it then failed."""
        cancels, output = cancel_requests(), output_of(context)
        try:
            result = await self._invoke(function, context)
            if self.rendering or self.debug:
                output.note_desired()
            if deleted := await output.carry_out_prune():
                context.log.info("pruned children that are wanted no more", deleted=deleted)
        except BaseException as raised:
            error = as_failure(raised, name_of(function), cancels)
            try:
                if error is None:
                    raise
                if not _all_are(error, StaleVersion):
                    await self._report(context, failed=True)
                if error is raised:
                    raise
                raise error from raised
            finally:
                del error  # as in `run`
        if not output.is_empty:
            await self._report(context, failed=False)
        return result or _DONE

    async def _visit(self, function: Any, context: Context[T]) -> Result | None:
        """Run a reconciler that is a plain function."""
        try:
            answer = await self.blocking.visit(lambda ask: function(SyncContext(context, ask)), context.log)
        except RunEnded:
            raise RuntimeError("its blocking code was ended from outside") from None
        if isinstance(answer, Awaitable):
            if isinstance(answer, Coroutine):
                answer.close()
            raise TerminalError(
                f"{name_of(function)} is a plain function that returns something to await: use `async def`"
            )
        return _checked(answer, function)

    async def _report_late(self, made: Sequence[Context[T]]) -> None:
        """What a run said of its object is written also where it then took too long."""
        with anyio.move_on_after(REPORT_SECONDS):
            for context in made:
                if not output_of(context).reported:
                    await self._report(context, failed=True)

    async def _report(self, context: Context[T], *, failed: bool) -> None:
        output = output_of(context)
        output.reported = True
        try:
            for event in output.events:
                message = core_of(context.client).redacted(event.message)
                self.recorder.record(context.object, evolve(event, message=message))
            await output.write_status()
        except NotFound:
            return
        except Exception as error:
            if not failed:
                raise
            context.log.warning(
                "the status of a failed run could not be written",
                error=core_of(context.client).redacted(str(error)),
            )

    def _holds(self, snapshot: Snapshot) -> bool:
        """Whether a finalizer of the controller, a present or a former one, is on the object."""
        return any(finalizer in snapshot.finalizers for finalizer in self.controller.finalizers)

    def _is_held_rightly(self, snapshot: Snapshot) -> bool:
        """Whether a living object has the present finalizer, if there is one, and no former one."""
        controller, present = self.controller, snapshot.finalizers
        held = not controller.finalizer or controller.finalizer in present
        return held and not any(former in present for former in controller.former_finalizers)

    def _finalizers_of(self, snapshot: Snapshot) -> Sequence[str]:
        """Those that a living object is to have: the present one takes the place of the former ones."""
        finalizer = self.controller.finalizer
        rest = [name for name in snapshot.finalizers if name not in self.controller.finalizers]
        return [*rest, finalizer] if finalizer else rest

    async def _clean_up(self, snapshot: Snapshot, context: Context[T]) -> Result:
        """Run what the controller does for an object that is going, then let it go, if we hold it."""
        controller, held = self.controller, self._holds(snapshot)
        result = _DONE
        if controller.on_terminating is not None:
            result = await self._call(controller.on_terminating, context)
        elif controller.cleanup is not None and held:
            result = await self._call(controller.cleanup, context)
            if result.wants_run:
                return result
        if not held:
            return result
        fresh = await reads_of(context.client).snapshot(self._resource, snapshot.key)
        if fresh is not None and fresh.uid == snapshot.uid:
            rest = [name for name in fresh.finalizers if name not in controller.finalizers]
            if len(rest) < len(fresh.finalizers):
                await self._set_finalizers(fresh, rest, context.client)
        return result

    async def _set_finalizers(
        self, snapshot: Snapshot, finalizers: Sequence[str], client: Client
    ) -> Snapshot:
        guard = {"uid": snapshot.uid, "resourceVersion": str(snapshot.version)}
        patch = {"metadata": {"finalizers": list(finalizers)}}
        return await client.raw.patch(self._resource, snapshot.key, patch, guard=guard)


def _checked(result: Any, function: Any) -> Result | None:
    """What a function of the author's returned, if it is what the runtime takes; a retry would not help."""
    if result is None or isinstance(result, Result):
        return result
    raise TerminalError(f"{name_of(function)} returned {type(result).__name__}: expected a Result or None")


def _dry(client: Client) -> Client:
    """A client for a rehearsal: nothing is carried out, and nothing is waited for."""
    return bound(client, NoJournal()).with_options(dry_run=True)


def _dry_elsewhere(client_of: Callable[[str], Client], cluster: str) -> Client:
    return _dry(client_of(cluster))


def _all_are(error: BaseException, *kinds: type[Exception]) -> bool:
    """Whether an error is of these kinds; of a group, as task groups make them, each one in it."""
    return all(isinstance(leaf, kinds) for leaf in leaf_errors(error))
