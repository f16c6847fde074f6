"""What the last runs of a controller wrote, kept for those who look at one object.

A run hands over what it has: the states before and after each write, and what it applied. Nothing is compared
or decoded here, and the oldest go when all of it takes too much room. Of Secrets nothing is kept.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
from attrs import define, field

from informers import APIResource, Key, Snapshot
from reconcile.client.redaction import NO_SECRETS, SecretValues, is_sensitive
from reconcile.controller.run_result import RunResult
from reconcile.controller.shown_runs import WRITES_KEPT
from reconcile.runs.diagnostics import observing
from reconcile.runs.run_request import Request
from reconcile.runs.write_events import EndedWrite

BYTES_KEPT: Final = 4 * 1024 * 1024
"""Of one controller, for the writes of its runs, and as many for what it applied last."""
_VALUE: Final = 400
"""About how many bytes a value takes besides the states of objects."""

Place: TypeAlias = tuple[APIResource, Key]


class WriteDetail(NamedTuple):
    """One write; `before` is what the cache had then, `after` the answer, at `version`.

    Times are the event loop's. Of Secrets the version alone is kept.
    """

    resource: APIResource
    key: Key
    version: int
    before: Snapshot | None
    after: Snapshot | None
    fresh: bool
    secret: bool
    started: float
    ended: float


@define(eq=False)
class RunDetails:
    """The writes of one run, None once newer ones needed the room; `secrets` are those that it has read."""

    writes: Sequence[WriteDetail] | None
    secrets: SecretValues
    size: int


class AppliedIntent(NamedTuple):
    """What a key has last applied or created as an object, and the answer; `size` is in bytes."""

    intent: bytes
    answer: Snapshot
    secrets: SecretValues
    size: int


@define(eq=False)
class WriteDetails:
    """The writes and intents of one controller that are kept, in `limit` bytes each."""

    limit: int = BYTES_KEPT
    _runs: deque[RunDetails] = field(factory=deque, init=False)
    _size: int = field(default=0, init=False)
    _intents: OrderedDict[Request, dict[Place, AppliedIntent]] = field(factory=OrderedDict, init=False)
    _intents_size: int = field(default=0, init=False)

    @observing(lambda *_: None)
    def kept(self, request: Request, writes: Sequence[EndedWrite], outcome: RunResult) -> RunDetails | None:
        """Keep the writes of a run that has ended; None if there are none."""
        if not writes:
            return None
        secrets = outcome.secrets or NO_SECRETS
        details = [_detail(write) for write in writes[:WRITES_KEPT]]
        run = RunDetails(details, secrets, secrets.size + sum(map(_size_of, details)))
        self._runs.append(run)
        self._size += run.size
        while self._size > self.limit:
            oldest = self._runs.popleft()
            self._size -= oldest.size
            oldest.writes, oldest.secrets = None, NO_SECRETS
        for write in writes:
            self._note_intent(request, write, secrets)
        while self._intents_size > self.limit:
            self._drop_intents(next(iter(self._intents)))
        return run

    def intents(self, request: Request) -> Mapping[Place, AppliedIntent]:
        """What a key has last applied, by object."""
        return self._intents.get(request, {})

    def forget_where(self, is_gone: Callable[[Request], bool]) -> None:
        """Forget what some keys have applied: another replica is to apply it from now on."""
        for request in [request for request in self._intents if is_gone(request)]:
            self._drop_intents(request)

    def _note_intent(self, request: Request, write: EndedWrite, secrets: SecretValues) -> None:
        place, body = (write.resource, write.key), write.body
        if write.dry or write.subresource or is_sensitive(write.resource):
            return
        if write.method == "DELETE":
            self._forget_intent(request, place)
            return
        is_whole = write.method == "POST" or (
            write.method == "PATCH" and isinstance(body, Mapping) and "apiVersion" in body
        )
        if not is_whole or write.written is None:
            return
        self._forget_intent(request, place)
        intent = msgspec.json.encode(body)
        size = _VALUE + len(intent) + write.written.size + secrets.size
        kept = AppliedIntent(intent, write.written, secrets, size)
        self._intents.setdefault(request, {})[place] = kept
        self._intents.move_to_end(request)
        self._intents_size += kept.size

    def _forget_intent(self, request: Request, place: Place) -> None:
        kept = self._intents.get(request, {})
        old = kept.pop(place, None)
        if old is not None:
            self._intents_size -= old.size
        if not kept:
            self._intents.pop(request, None)

    def _drop_intents(self, request: Request) -> None:
        self._intents_size -= sum(kept.size for kept in self._intents.pop(request).values())


def _detail(write: EndedWrite) -> WriteDetail:
    secret = is_sensitive(write.resource)
    before, after = (None, None) if secret else (write.base, write.written)
    version = 0 if write.written is None else write.written.version
    started, ended = write.sent.started, write.ended
    return WriteDetail(write.resource, write.key, version, before, after, write.fresh, secret, started, ended)


def _size_of(detail: WriteDetail) -> int:
    return _VALUE + sum(state.size for state in (detail.before, detail.after) if state is not None)
