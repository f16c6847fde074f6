"""What a replayed run decided otherwise than the recorded one."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import frozen

from informers.transport import HttpRequest
from reconcile.client.diff import value_differences
from reconcile.controller.run_result import RunResult
from reconcile.recording.recorded_events import Ended, Sent
from reconcile.recording.secret_masks import has_masks
from reconcile.testing.recorded_runs.replayed_world import ReplayedRun
from reconcile.testing.recorded_runs.run_traces import Exchange, content_of

NOT_ENDED = "it had not ended"
_LONGEST = 120


@frozen
class Difference:
    """One decision before and now, as texts; `fields` are the lines of a changed request."""

    what: str
    before: str
    now: str
    fields: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        """It as lines for people."""
        if self.fields:
            yield f"{self.what}:"
            yield from (f"  {line}" for line in self.fields)
        else:
            yield f"{self.what}: before {self.before}, now {self.now}"


def differences(run: ReplayedRun, ended: Ended, result: RunResult | None) -> Sequence[Difference]:
    """The differences of a run that has ended; empty where it decided the same."""
    found = [*_of_requests(run, ended.result == "cancelled"), *_of_results(ended, result)]
    return found or [*_of_order(run)]


def has_read_masks(run: ReplayedRun, result: RunResult | None) -> bool:
    """Whether the run has read values that the recording masks: it decides by the masks then."""
    if result is not None and (result.secretive or has_masks(_primary_of(result))):
        return True
    answers = (exchange.answered for exchange in run.trace.exchanges)
    return any(answered is not None and has_masks(answered.body) for answered in answers)


def _primary_of(result: RunResult) -> bytes | None:
    primary = None if result.record is None else result.record.primary
    return None if primary is None else primary.raw


def _of_requests(run: ReplayedRun, cancelled: bool) -> Iterator[Difference]:
    missing = [exchange for exchange in run.trace.exchanges if not exchange.taken]
    if cancelled and not missing:
        return  # what it sent beyond the recorded ones, it would have sent if it had not been cancelled
    for request in run.new:
        before = _counterpart(request, missing)
        if before is None:
            yield Difference(_name(request), "not sent", "sent", _all_fields(request) if request.body else ())
            continue
        missing.remove(before)
        yield Difference(_name(request), "", "", [*_changes(before.sent, request)])
    for exchange in missing:
        yield Difference(_name(exchange.sent), "sent", "not sent")


def _counterpart(request: HttpRequest, missing: Sequence[Exchange]) -> Exchange | None:
    """The recorded request in whose place another one was sent: of the same method and path."""
    for exchange in missing:
        if (exchange.sent.method, exchange.sent.path) == (request.method, request.path):
            return exchange
    return None


def _of_results(ended: Ended, result: RunResult | None) -> Iterator[Difference]:
    if ended.result == "cancelled":
        return
    if result is None:
        yield Difference("result", ended.result, NOT_ENDED)
        return
    if ended.result != result.name:
        yield Difference(
            "result", _result(ended), result.name + (f" ({result.message})" if result.error else "")
        )
        return
    error = "" if result.error is None else type(result.error).__name__
    pairs: list[tuple[str, Any, Any]] = [
        ("requeue_after", ended.requeue_after, result.result.requeue_after),
        ("priority", ended.priority, result.result.priority),
        ("error", ended.error, error),
    ]
    for what, before, now in pairs:
        if before != now:
            yield Difference(what, str(before), str(now))


def _result(ended: Ended) -> str:
    return f"{ended.result} ({ended.message})" if ended.message else ended.result


def _of_order(run: ReplayedRun) -> Iterator[Difference]:
    """Writes in another order, where each was sent only after the answer to the one before."""
    writes = [number for number in run.order if not run.trace.exchanges[number].reads]
    for earlier, later in pairwise(writes):
        if later > earlier:
            continue
        first, second = run.trace.exchanges[later], run.trace.exchanges[earlier]
        if first.answered is not None and first.answered_as < second.sent_as:
            before, now = _name(first.sent), _name(second.sent)
            yield Difference("order of writes", f"{before} first", f"{now} first")
            return


def _name(request: HttpRequest | Sent) -> str:
    headers: Mapping[str, str] = request.headers if isinstance(request, HttpRequest) else {}
    kind = request.content_type if isinstance(request, Sent) else headers.get("content-type", "")
    verb = "APPLY" if request.method == "PATCH" and "apply" in kind else request.method
    return f"{verb} {request.path}"


def _changes(before: Sent, now: HttpRequest) -> Iterator[str]:
    old, new = content_of(before.body), content_of(now.body)
    if before.query != dict(now.query):
        yield f"query: before {_shown(before.query)}, now {_shown(dict(now.query))}"
    if isinstance(old, dict) and isinstance(new, dict):
        for path, one, other in value_differences(old, new):
            yield f"{path or 'all of it'}: before {_shown(one)}, now {_shown(other)}"
    elif old != new:
        yield f"body: before {_shown(old)}, now {_shown(new)}"


def _all_fields(request: HttpRequest) -> Sequence[str]:
    return [f"sent, and not before: {_shown(content_of(request.body))}"]


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
