"""Carries out the steps of an object in order, one in each run, and undoes them in reverse."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
from attrs import evolve, field, frozen

from informers import Snapshot, StaleVersion
from informers.functions import check_function
from reconcile import predicates
from reconcile.blocks.steps.step_records import (
    MOST_STEPS,
    Interrupted,
    StepStatus,
    begun,
    bounded,
    due,
    ended,
    read_value,
    value_text,
    with_record,
)
from reconcile.blocks.steps.taken_over import handled
from reconcile.client.client import core_of
from reconcile.controller.context import Context, output_of
from reconcile.controller.declaration import Predecessor
from reconcile.models import Object, kind_of, structure
from reconcile.models.fields import ModelField, fields_of
from reconcile.predicates import Predicate
from reconcile.runs.run_failures import described
from reconcile.runs.run_request import Result, TerminalError

T = TypeVar("T", bound=Object)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_AT_ONCE = Result(requeue_after=0)
_LATER = Result(requeue=True)


@frozen
class StepRun:
    """What the function of a step gets beside its context.

    `token` names the round of the step: equal in each attempt of it, and in no other, so it is the
    idempotency key for a service outside; an `undo` gets that of the round to undo. `value` is that of
    `once_for` now, and `before` the one for which the step was last carried out, None where it never was (or
    has no `once_for`). `since` is when the round began. `interrupted`: an earlier attempt of the round has
    begun, and how it ended is not known.
    """

    name: str
    token: str
    value: Any = None
    before: Any = None
    since: datetime | None = None
    interrupted: bool = False


StepFunction: TypeAlias = Callable[[Context[T], StepRun], Awaitable[Result | None]]
"""Carries out a step, or undoes it: None once that is done, a `Result` where it is not."""


def _ids(ids: "str | Iterable[str]") -> tuple[str, ...]:
    return (ids,) if isinstance(ids, str) else tuple(ids)


@frozen
class Step(Generic[T]):
    """One step: `carry_out(ctx, step)` has done it where it returns None.

    A `Result` says that it is not done yet: it is called again in the run that the result asks for, or in the
    next one that anything else causes. An error is retried as that of a reconciler; with a `TerminalError`
    the step has failed until the object's spec changes.

    `name` (lower case, digits and dashes) stands in the status: a step of another name is another step.

    `once_for` gets the object and returns plain data: the step is carried out once for each value in a row,
    instead of once for the object. The value is kept in the status, where anyone may read it who may read the
    object.

    `undo` is called as `carry_out` is, where the step has begun and the object is being deleted.

    `replaces` are kopf's ids of the handlers whose place it takes, such as `resize/spec.size/told`: where one
    has succeeded in a change that kopf did not come to the end of, the step counts as done for it. That needs
    `Steps(predecessor=)`.

    `interrupted` is what to do with a step whose process ended while it was at work: `"repeat"` it (with the
    same token), or `"hold"`: never begin it again until a person has said what became of it.

    Raises ValueError for another name, and TypeError for functions that do not fit.
    """

    name: str
    carry_out: StepFunction[T]
    once_for: Callable[[T], Any] | None = field(default=None, kw_only=True)
    undo: StepFunction[T] | None = field(default=None, kw_only=True)
    interrupted: Interrupted = field(default="repeat", kw_only=True)
    replaces: Sequence[str] = field(default=(), kw_only=True, converter=_ids)

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"Step({self.name!r}): expected lower case letters, digits and dashes, at most 63"
            )
        if self.interrupted not in ("repeat", "hold"):
            raise ValueError(f"Step({self.name!r}): interrupted= is 'repeat' or 'hold'")
        check_function(self.carry_out, f"Step({self.name!r}): carry_out=", "ctx, step", "async")
        if self.undo is not None:
            check_function(self.undo, f"Step({self.name!r}): undo=", "ctx, step", "async")
        if self.once_for is not None:
            check_function(self.once_for, f"Step({self.name!r}): once_for=", "object", "plain")


def _steps(steps: "Sequence[Step[T]]") -> "tuple[Step[T], ...]":
    return tuple(steps)


@frozen
class Steps(Generic[T]):
    """Steps that are carried out for each object of a kind, whose progress is in its status.

    The status of `kind` has a field `steps: tuple[StepStatus, ...] = ()`, or another one that `field` names.
    A reconciler, an `async def`, begins with `pending = await steps.carry_out(ctx)` and returns `pending`
    unless it is None.

    What is promised: that a step begins is in the status before its function is called, and that it is done
    before anything after it begins. So each step is carried out **at least once**, and again only if its
    process ended (or its record could not be written) between the two; with `interrupted="hold"` **at most
    once**. The token is the same in each attempt of a round, so a service that knows idempotency keys makes
    it exactly once. The record of the beginning is refused where the cache was behind or another replica
    works, and the function is not called then.

    Steps are known by name: a later version may reorder them, leave some out, and add some, which are carried
    out for existing objects too, in their place of the order. Records of steps that are left out stay, for a
    version that is rolled back.

    With `ordered=False` a step that waits or fails holds up none of the others, and one run carries out all
    that are due: handlers of single fields.

    `predecessor` is an operator on kopf whose sub-handlers became these steps. For an object that it has
    handled to the end, a step without a record counts as done, with the value of `once_for` that the object
    had then: its record says so before any step begins. What kopf left stays until all steps are done.

    Raises TypeError for a kind without that field in its status, and ValueError for two steps of one name and
    for a predecessor that is not on kopf.
    """

    kind: type[T]
    steps: Sequence[Step[T]] = field(converter=_steps)
    ordered: bool = field(default=True, kw_only=True)
    predecessor: Predecessor | None = field(default=None, kw_only=True)
    field: str = field(default="steps", kw_only=True)

    def __attrs_post_init__(self) -> None:
        kind_of(self.kind)
        names = [step.name for step in self.steps]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"Steps({self.kind.__name__}): two steps are named {twice[0]!r}")
        if len(names) > MOST_STEPS:
            raise ValueError(
                f"Steps({self.kind.__name__}): {len(names)} steps, and at most {MOST_STEPS} are kept"
            )
        if self.predecessor is not None and self.predecessor.traces is None:
            raise ValueError(
                f"Steps({self.kind.__name__}): predecessor={self.predecessor.name!r} left nothing that shows "
                "what it has handled; expected Predecessor.kopf(...)"
            )
        if all(one.name != self.field for one in _status_fields(self.kind)):
            raise TypeError(
                f"Steps({self.kind.__name__}): its status has no field {self.field!r}: "
                f"add `{self.field}: tuple[StepStatus, ...] = ()`"
            )

    async def carry_out(self, ctx: Context[T]) -> Result | None:
        """Carry out what is due; None where every step was done before this run.

        Each run carries out one step (each that is due, without `ordered`), so a step finds what an earlier
        one put into the status in `ctx.object`. Raises what a step raises; TerminalError for a step that has
        failed for good, one that was interrupted and must not be repeated, and a value of `once_for` that is
        too long or has the value of a Secret.
        """
        records = _Records(self, ctx)
        await self._take_over(records, ctx)
        attempts = [_Attempt(records, ctx, step) for step in self.steps]
        pending = [one for one in attempts if one.due != "done"]
        if not pending:
            return None
        output_of(ctx).is_partial |= self.predecessor is not None
        return await (pending[0].make() if self.ordered else _each_of(pending))

    async def _take_over(self, records: "_Records[T]", ctx: Context[T]) -> None:
        """Record as done what the predecessor has done. Raises StaleVersion where the cache is behind.

        It is written at once: after the first good run nothing is left of kopf that would show it.
        """
        new = [step for step in self.steps if records.of(step.name) is None]
        traces = None if self.predecessor is None else self.predecessor.traces
        found = await handled(ctx, traces) if traces is not None and new else None
        if self.predecessor is None or found is None:
            return
        now = ctx.clock.now().replace(microsecond=0)
        message = f"carried out by {self.predecessor.name}"
        for step in new:
            done = found.now if found.has_succeeded(step.replaces) else found.before
            if done is not None:
                output_of(ctx).note_time(now)
                record = begun(step.name, None, _value_of(step, ctx, done), done.metadata.generation, now)
                records.collect(ended(record, "Done", message))
        await records.store()

    async def undo(self, ctx: Context[T]) -> Result | None:
        """Undo the steps that have begun, the last one of the order first, one in each run; for `cleanup=`.

        None where nothing is left to undo, which lets the object go. An `undo` that returns a Result has not
        finished. Raises what an `undo` raises.
        """
        records = _Records(self, ctx)
        if not await records.are_current():
            return _LATER  # a step may have begun that the cache does not show
        left = [step for step in reversed(self.steps) if step.undo is not None and records.of(step.name)]
        if not left:
            return None
        result = await _undo(records, ctx, left[0])
        if result is not None:
            return result if result.wants_run else _LATER
        return _AT_ONCE if left[1:] else None

    @property
    def wakes(self) -> Predicate:
        """What wakes a controller by default, and a person's verdict on a step: for `Controller(wakes=)`.

        A verdict is a state that is set to Again, or from Unknown to another one.
        """
        return predicates.default | self._has_verdict

    def _has_verdict(self, old: Snapshot, new: Snapshot) -> bool:
        before, after = self._states(old), self._states(new)
        return any(
            before.get(name) != state and (state == "Again" or before.get(name) == "Unknown")
            for name, state in after.items()
        )

    def _states(self, snapshot: Snapshot) -> Mapping[str, str]:
        """By name, of the object as it is stored: a person may have written anything."""
        status = snapshot.to_dict().get("status")
        records = status.get(self.wire) if isinstance(status, dict) else None
        known = [one for one in records if isinstance(one, dict)] if isinstance(records, list) else []
        return {str(one.get("name")): str(one.get("state")) for one in known}

    @property
    def wire(self) -> str:
        """The name in JSON of the field of the status."""
        return next(one.wire for one in _status_fields(self.kind) if one.name == self.field)

    def records(self, obj: T) -> tuple[StepStatus, ...]:
        """The records in the status of an object."""
        records: tuple[StepStatus, ...] = tuple(getattr(getattr(obj, "status", None), self.field, None) or ())
        return records


def _status_fields(kind: type[Object]) -> tuple[ModelField, ...]:
    status = next((one.type for one in fields_of(kind) if one.name == "status"), None)
    return fields_of(status) if isinstance(status, type) and attrs.has(status) else ()


def _structured(records: Sequence[Any]) -> tuple[StepStatus, ...]:
    return tuple(structure(StepStatus, record) for record in records)


class _Records(Generic[T]):
    """The records of one object during a run."""

    def __init__(self, steps: Steps[T], ctx: Context[T]) -> None:
        self.field = steps.field
        self._names = [step.name for step in steps.steps]
        self._read = steps.records
        self._ctx = ctx
        self._output = output_of(ctx)
        collected = self._output.collected_status(steps.wire)  # by other steps of the same field
        known = steps.records(ctx.object) if collected is None else _structured(collected)
        self._stored = self._present = known

    def of(self, name: str) -> StepStatus | None:
        return next((one for one in self._present if one.name == name), None)

    def collect(self, record: StepStatus) -> None:
        """Have it written at the end of the run, or with what is written earlier."""
        self._collect(with_record(self._present, record))

    async def begin(self, record: StepStatus) -> None:
        """Write it to the very state that the run has seen. Raises StaleVersion."""
        self.collect(record)
        await self.store()

    async def store(self) -> None:
        """Write what was collected, as `begin`. Raises StaleVersion."""
        await self._output.write_status()
        self._stored = self._present

    async def end(self, record: StepStatus) -> bool:
        """Write it even if others have written to the object meanwhile; False if the records have changed."""
        self.collect(record)
        return await self._write()

    async def drop(self, name: str) -> bool:
        """Write the records without one; as `end`."""
        self._collect(tuple(one for one in self._present if one.name != name))
        return await self._write()

    async def are_current(self) -> bool:
        """Whether the server has the records that the run has seen."""
        live = await self._output.live()
        return live is not None and self._read(live[1]) == self._stored

    async def _write(self) -> bool:
        stored = self._stored
        written = await self._output.write_status_onto(lambda live: self._read(live) == stored)
        if written:
            self._stored = self._present
        return written

    def _collect(self, records: Sequence[StepStatus]) -> None:
        self._present = bounded(records, self._names)
        self._ctx.status(**{self.field: self._present})


class _Attempt(Generic[T]):
    """One attempt of one step in one run."""

    def __init__(self, records: _Records[T], ctx: Context[T], step: Step[T]) -> None:
        self._records, self._ctx, self._step = records, ctx, step
        self._generation = ctx.object.metadata.generation
        self._before = records.of(step.name)
        self._value = _value_of(step, ctx, ctx.object)
        self.due = due(self._before, self._value, self._generation, step.interrupted)

    async def make(self) -> Result:
        """Carry it out; returns what is to follow. Raises what it raises, and TerminalError, StaleVersion."""
        self._refuse()
        record = await self._begin()
        if record is None:
            return _LATER
        before = self._before
        interrupted = self.due == "continue" and before is not None and before.state == "Running"
        try:
            result = await self._step.carry_out(self._ctx, _run_of(self._ctx, record, interrupted))
        except StaleVersion:  # it worked on an old state, and is repeated as it stands
            if self._step.interrupted == "hold":  # the next run would take it for one of a dead process
                await self._records.end(ended(record, "Failing", "worked on an old state: it is repeated"))
            raise
        except TerminalError as error:
            await self._records.end(ended(record, "Failed", _text(self._ctx, error), self._generation))
            raise
        except Exception as error:
            self._records.collect(ended(record, "Failing", _text(self._ctx, error)))
            raise
        written = await self._records.end(ended(record, "Done" if result is None else "Waiting"))
        if result is None:
            return _AT_ONCE if written else _LATER
        return result

    def _refuse(self) -> None:
        record = self._before
        if record is None:
            return
        if self.due == "failed":
            raise TerminalError(f"step {record.name!r} has failed: {record.message}")
        if self.due == "unknown":
            self._records.collect(ended(record, "Unknown", "interrupted: it may have been carried out"))
            raise TerminalError(
                f"step {record.name!r} was interrupted, and may have been carried out: find out, and set its "
                f"state in status.{self._records.field} to Done, or to Again to have it repeated"
            )

    async def _begin(self) -> StepStatus | None:
        """The record of this attempt, known to the server; None where the cache is behind."""
        before, step = self._before, self._step
        if before is None or self.due == "begin":
            now = self._ctx.clock.now().replace(microsecond=0)  # as it will be read
            output_of(self._ctx).note_time(now)
            record = begun(step.name, before, self._value, self._generation, now)
        else:
            record = evolve(before, state="Running", message="") if step.interrupted == "hold" else before
        if record == before:
            return record if await self._records.are_current() else None
        await self._records.begin(record)
        return record


async def _each_of(pending: "Sequence[_Attempt[Any]]") -> Result:
    """Make all attempts. An error that is retried comes first, then what steps asked for, then the rest."""
    results: list[Result] = []
    errors: list[Exception] = []
    for attempt in pending:
        try:
            results.append(await attempt.make())
        except StaleVersion:
            raise
        except Exception as error:
            errors.append(error)
    retried = [error for error in errors if not isinstance(error, TerminalError)]
    if retried or not results:
        raised = retried or errors
        raise raised[0] if len(raised) == 1 else ExceptionGroup(f"{len(raised)} steps failed", raised)
    delays = [result.requeue_after for result in results if result.requeue_after is not None]
    if delays:
        return Result(requeue_after=min(delays))
    return Result(requeue=any(result.requeue for result in results))


async def _undo(records: _Records[T], ctx: Context[T], step: Step[T]) -> Result | None:
    record = records.of(step.name)
    assert record is not None
    assert step.undo is not None
    record = evolve(record, state="Undoing", message="")
    try:
        result = await step.undo(ctx, _run_of(ctx, record, False))
    except StaleVersion:
        raise
    except Exception as error:
        records.collect(ended(record, "Undoing", _text(ctx, error)))
        raise
    if result is not None:
        records.collect(record)
        return result
    return None if await records.drop(record.name) else _LATER


def _run_of(ctx: Context[Any], record: StepStatus, interrupted: bool) -> StepRun:
    token = f"{ctx.object.uid}-{record.name}-{record.round}"
    value, before = read_value(record.value), read_value(record.before)
    return StepRun(record.name, token, value, before, record.since, interrupted)


def _value_of(step: Step[T], ctx: Context[T], obj: T) -> str:
    if step.once_for is None:
        return ""
    try:
        text = value_text(step.once_for(obj))
    except ValueError as error:
        raise TerminalError(
            f"step {step.name!r}: the value of once_for= is {error}: return a digest"
        ) from None
    if core_of(ctx.client).redacted(text) != text:
        raise TerminalError(f"step {step.name!r}: once_for= returned the value of a Secret: return a digest")
    return text


def _text(ctx: Context[Any], error: Exception) -> str:
    return core_of(ctx.client).redacted(described(error))
