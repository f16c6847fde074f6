"""Which news are echoes of a key's own writes, and which of them still have to wake it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from attrs import define, evolve, field

from informers import Delta, Key, Resource, Snapshot
from reconcile.runs.diagnostics import observing
from reconcile.runs.requests import Cause, Request
from reconcile.runs.run_record import Sent

_Version: TypeAlias = tuple[Resource, Key, int]

REMEMBERED = 10_000
"""Keys whose writes are remembered; those of the oldest wake, like anybody's, once there are more."""

SERVER_SET = ("resourceVersion", "generation", "managedFields")


class News(Enum):
    """What a change is to a key: somebody else's; its own; its own, and seen by a run that has begun."""

    FOREIGN = "foreign"
    ECHO = "echo"
    COVERED = "covered"


@define
class _Expected:
    """A write whose echo is to come; once that is here, only what it was is kept, for further handlers."""

    sent: Sent | None
    covered: bool = False
    heard: News | None = None
    since: int = 0


@define(eq=False)
class Echoes:
    """The writes of each key of which the watch has not told yet.

    A run begins by waiting until the cache shows all that the runs before it wrote, so it covers their
    echoes: those wake nobody any more. The first echo of a run that nobody covers wakes, so that "add a
    finalizer, return" goes on. What is not certainly an echo is not one. A key without unheard writes
    takes no memory. `resources` are those whose changes are heard of here; None: all.
    """

    resources: Collection[Resource] | None = None

    _expected: dict[Request, dict[_Version, _Expected]] = field(factory=dict, init=False)

    def wrote(self, request: Request, sent: Sent) -> None:
        """A run of that key has sent this."""
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
        """A run begins; its causes, with those marked that are echoes which came before their answers."""
        versions = self._expected.get(request)
        if versions is None:
            return causes
        marked = [self._marked(versions, cause) for cause in causes]
        for version, expected in [*versions.items()]:
            expected.covered = True
            if expected.heard is not None:
                del versions[version]
        if not versions:
            del self._expected[request]
        return marked

    def end(self, request: Request, wrote: bool) -> None:
        """A run ended. One that wrote nothing began after all echoes: what is left will not come."""
        if not wrote:
            self._expected.pop(request, None)

    def hears(self, request: Request, resource: Resource, delta: Delta) -> News:
        """What a change is to that key; several handlers may ask about one change."""
        versions = self._expected.get(request)
        new = delta.new
        if versions is None or new is None or delta.resync:
            return News.FOREIGN
        expected = versions.get((resource, new.key, new.version))
        if expected is None:
            return News.FOREIGN
        since = 0 if delta.old is None else delta.old.version
        if expected.sent is not None:
            expected.heard = News.FOREIGN
            if is_echo(expected.sent, delta.old, new):
                expected.heard = News.COVERED if expected.covered else News.ECHO
            expected.sent, expected.since = None, since
        assert expected.heard is not None
        return expected.heard if since == expected.since else News.FOREIGN

    def passes(self, request: Request, resource: Resource, delta: Delta) -> None:
        """A change concerns that key and does not wake it."""
        versions = self._expected.get(request)
        if versions is None or delta.new is None:
            return
        versions.pop((resource, delta.new.key, delta.new.version), None)
        if not versions:
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
        return evolve(cause, echo=True)


@observing(lambda *_: False)
def is_echo(sent: Sent, old: Snapshot | None, new: Snapshot) -> bool:
    """Whether the change from `old` to `new` is that write alone.

    `new` is the very version that the write returned, `old` the very state that it was computed from, and
    nothing differs but what was written: two changes told as one are not an echo.
    """
    if sent.written is None or new != sent.written:
        return False
    if old is None or sent.base is None:
        return old is None and sent.base is None and sent.fresh
    if old != sent.base:
        return False
    return _names_version(sent.body, old.version) or _explains(sent.body, old.to_dict(), new.to_dict())


def _names_version(body: Any, version: int) -> bool:
    """Whether the server carried the write out only for that version."""
    if isinstance(body, Mapping):
        named: Any = (body.get("metadata") or {}).get("resourceVersion")
        return bool(named == str(version))
    if not isinstance(body, Sequence) or isinstance(body, str | bytes):
        return False
    return any(
        one.get("path") == "/metadata/resourceVersion" and one.get("value") == str(version) for one in body
    )


def _explains(body: Any, old: dict[str, Any], new: dict[str, Any]) -> bool:
    if not isinstance(body, Mapping):
        return False
    return _explained(body, _without_server_set(old), _without_server_set(new))


def _without_server_set(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in SERVER_SET}
    return {**obj, "metadata": metadata}


_ABSENT = object()


def _explained(body: Any, old: Any, new: Any) -> bool:
    """Whether every difference between two states is what `body` says there; None takes away."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return all(
            _explained(_member(body, name), old.get(name, _ABSENT), new.get(name, _ABSENT))
            for name in _names(old, new)
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


def _names(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
    return dict.fromkeys((*old, *new))


def _alike(*values: Any) -> bool:
    lists = all(isinstance(value, list | tuple) for value in values)
    return lists and len({len(value) for value in values}) == 1
