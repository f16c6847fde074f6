"""Recognizes echoes of a key's own writes, and those among them that still have to wake it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

import msgspec
from attrs import define, field, frozen

from informers import APIResource, Delta, Key, Snapshot
from informers.apimachinery.server_fields import SET_BY_EVERY_WRITE
from reconcile.runs.diagnostics import observing
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.write_events import Answered, EndedWrite, WriteObserver

_Version: TypeAlias = tuple[APIResource, Key, int]

REMEMBERED = 10_000
"""Keys whose writes are remembered. Beyond that the echoes of the oldest key wake it, as foreign changes do:
that costs a run and loses nothing."""


class Origin(Enum):
    FOREIGN = "foreign"
    OWN = "own"
    SEEN = "seen"
    """Its own, and a run that has begun reads a cache which shows it."""


@define
class _Expected:
    """A write whose echo is to come. Then only its origin is kept, for further handlers."""

    sent: EndedWrite | None
    seen: bool = False
    origin: Origin | None = None
    since: int = 0


@frozen(eq=False)
class EchoObserver(WriteObserver):
    echoes: "Echoes"
    request: Request

    def answered(self, answered: Answered) -> None:
        self.echoes.expect(self.request, answered)


@define(eq=False)
class Echoes:
    """The writes of each key that the watch has not delivered yet.

    A run begins by waiting until the cache shows all writes of earlier runs, so it has seen their echoes,
    which wake the key no more. Otherwise the first echo of a run wakes the key, so that "add a finalizer,
    return" goes on. A change counts as foreign unless it is certainly an echo. A key without expected echoes
    takes no memory. Only writes to `resources`, whose changes may wake the controller, are remembered; None:
    all.
    """

    resources: Collection[APIResource] | None = None
    _expected: dict[Request, dict[_Version, _Expected]] = field(factory=dict, init=False)

    def expect(self, request: Request, sent: EndedWrite) -> None:
        written = sent.written
        if written is None or sent.dry or sent.base == written:
            return
        if self.resources is not None and sent.resource not in self.resources:
            return
        if len(self._expected) >= REMEMBERED and request not in self._expected:
            del self._expected[next(iter(self._expected))]
        versions = self._expected.setdefault(request, {})
        versions[sent.resource, sent.key, written.version] = _Expected(sent)

    def begin(self, request: Request, causes: Sequence[Cause]) -> Sequence[Cause]:
        """Begin a run; returns its causes, with echoes marked that came before the answers to writes."""
        versions = self._expected.get(request)
        if versions is None:
            return causes
        marked = [self._marked(versions, cause) for cause in causes]
        for version, expected in [*versions.items()]:
            # An earlier run waited for it, so its change has passed, and was none that wakes this key.
            if expected.seen or expected.origin is not None:
                del versions[version]
            expected.seen = True
        if not versions:
            del self._expected[request]
        return marked

    def end(self, request: Request, wrote: bool) -> None:
        """End a run. If it wrote nothing, it began after all echoes: those still expected will not come."""
        if not wrote:
            self._expected.pop(request, None)

    def classify(self, request: Request, resource: APIResource, delta: Delta) -> Origin:
        """The origin of a change, for that key. Several handlers may ask about one change."""
        versions = self._expected.get(request)
        new = delta.new
        if versions is None or new is None or delta.resync:
            return Origin.FOREIGN
        expected = versions.get((resource, new.key, new.version))
        if expected is None:
            return Origin.FOREIGN
        since = 0 if delta.old is None else delta.old.version
        if expected.sent is not None:
            expected.origin = Origin.FOREIGN
            if is_echo(expected.sent, delta.old, new):
                expected.origin = Origin.SEEN if expected.seen else Origin.OWN
            # The answer is as large as the object: it is let go, and the origin kept for other handlers.
            expected.sent, expected.since = None, since
        assert expected.origin is not None
        # A store that was behind delivers the version from another start: with it came a foreign change.
        return expected.origin if since == expected.since else Origin.FOREIGN

    def discard(self, request: Request, resource: APIResource, delta: Delta) -> None:
        """Note a change that concerns that key and does not wake it."""
        versions = self._expected.get(request)
        if versions is None or delta.new is None:
            return
        versions.pop((resource, delta.new.key, delta.new.version), None)
        if not versions:
            del self._expected[request]

    def forget_where(self, is_gone: Callable[[Request], bool]) -> None:
        """Expect no more echoes of some keys."""
        for request in [request for request in self._expected if is_gone(request)]:
            del self._expected[request]

    def __len__(self) -> int:
        return len(self._expected)

    def _marked(self, versions: Mapping[_Version, _Expected], cause: Cause) -> Cause:
        if cause.resource is None or cause.key is None:
            return cause
        expected = versions.get((cause.resource, cause.key, cause.version))
        sent = None if expected is None else expected.sent
        if sent is None or sent.written is None:
            return cause
        same_start = cause.since == (0 if sent.base is None else sent.base.version)
        if not same_start or not is_echo(sent, sent.base, sent.written):
            return cause
        return msgspec.structs.replace(cause, echo=True)


@observing(lambda *_: False)
def is_echo(sent: EndedWrite, old: Snapshot | None, new: Snapshot) -> bool:
    """Whether the change from `old` to `new` is that write alone; two changes that arrive as one are not."""
    if sent.written is None or new != sent.written:
        return False
    if old is None or sent.base is None:
        return old is None and sent.base is None and sent.fresh
    if old != sent.base:
        return False
    return _names_version(sent.body, old.version) or _explains(sent.body, old.to_dict(), new.to_dict())


def _names_version(body: Any, version: int) -> bool:
    """Whether the write was for that version only, so that the server would have refused it on any other."""
    if isinstance(body, Mapping):
        named: Any = (body.get("metadata") or {}).get("resourceVersion")
        return bool(named == str(version))
    if not isinstance(body, Sequence) or isinstance(body, str | bytes):
        return False
    return any(
        step.get("path") == "/metadata/resourceVersion" and step.get("value") == str(version) for step in body
    )


def _explains(body: Any, old: dict[str, Any], new: dict[str, Any]) -> bool:
    if not isinstance(body, Mapping):
        return False
    return _explained(body, _without_server_set(old), _without_server_set(new))


def _without_server_set(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in SET_BY_EVERY_WRITE}
    return {**obj, "metadata": metadata}


_ABSENT = object()


def _explained(body: Any, old: Any, new: Any) -> bool:
    """Whether `body` accounts for every difference between two states; None in it removes a field."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return all(
            _explained(_member(body, name), old.get(name, _ABSENT), new.get(name, _ABSENT))
            for name in {*old, *new}
        )
    if old is not _ABSENT and new is not _ABSENT and old == new:
        return True
    if _alike(body, old, new):
        return all(map(_explained, body, old, new))
    if body is None:
        return new is _ABSENT
    return body is not _ABSENT and new is not _ABSENT and bool(body == new)


def _member(body: Any, name: str) -> Any:
    return body.get(name, _ABSENT) if isinstance(body, Mapping) else _ABSENT


def _alike(*values: Any) -> bool:
    lists = all(isinstance(value, list | tuple) for value in values)
    return lists and len({len(value) for value in values}) == 1
