"""A watch: a replay of one resource's changes after a version."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from informers.apimachinery.envelopes import INITIAL_EVENTS_END
from reconcile.embedded.api import META, Form
from reconcile.embedded.kubectl.tables import Tables
from reconcile.embedded.log import Log, Stored, StoredChange, Timeline
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import expired
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import Unconverted, body_in, encode, shown
from reconcile.embedded.verbs.object_selection import ObjectSelection
from reconcile.embedded.verbs.rendering import JSON, render_object

# Both from kube-apiserver's cacher: about once a minute, and shortly before the watch times out.
BOOKMARK_PERIOD = 60.0
BOOKMARK_BEFORE_END = 2.0


class WatchStream:
    """A stream of JSON lines. `take` does not block; read with `wait`, or with `listen`.

    A watch has a position in the log and no queue, so a slow reader costs nothing. It ends with an ERROR
    event (410) if the log is trimmed past it, and `timeout` seconds after the first `wait` or `listen`.
    """

    content_type = JSON

    def __init__(
        self,
        log: Log,
        resource: ServedResource,
        selection: ObjectSelection,
        form: Form,
        *,
        after: int,
        initial: Sequence[Stored] = (),
        mark_initial_end: bool = False,
        bookmarks: bool = False,
        timeout: float = math.inf,
        table: Tables,
    ) -> None:
        self.resource = resource
        self._log = log
        self._timeline: Timeline = log.timeline(resource.storage_key)
        self._selection = selection
        self._narrows = selection.narrows
        self._form = form
        self._table = table
        self._columns_sent = False
        self._after = after
        self._position = self._timeline.position_after(after)
        self._bookmarks = bookmarks
        self._timeout = timeout
        self._deadline: float | None = None
        self._next_bookmark = math.inf
        self._ready = [self._line("ADDED", stored) for stored in initial]
        if mark_initial_end:
            self._ready.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        self._ending = False
        self._woken: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._listener: Callable[[], None] | None = None
        self._converting: asyncio.Task[bytes] | None = None
        self._close_listener: Callable[[WatchStream], None] | None = None
        if not log.reaches_back_to(after):
            self.fail(expired(after, log.trimmed))

    @property
    def ending(self) -> bool:
        """Whether nothing new will come; available lines can still be taken."""
        return self._ending

    def on_close(self, listener: Callable[["WatchStream"], None]) -> None:
        """Call `listener` once the watch is ending."""
        self._close_listener = listener

    @property
    def closed(self) -> bool:
        """Whether the watch is ending and every line was taken."""
        return self._ending and not self._ready

    def take(self) -> list[bytes]:
        """All available lines, each with its newline."""
        if not self._ending:
            self._collect()
        lines, self._ready = self._ready, []
        return lines

    async def wait(self) -> None:
        """Wait until there is a line to take or the watch has ended."""
        if self._timer is None:
            self._pass_time()
        while not self._ready and not self._ending:
            self._collect()
            if not self._ready and not self._ending:
                await self._sleep()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever there may be lines to take, for a reader that never waits."""
        self._listener = listener
        self._pass_time()

    def notify(self) -> None:
        """Wake the reader: the log has a change of this resource."""
        if self._listener is not None:
            self._listener()
        elif self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def finish(self) -> None:
        """End after the changes so far."""
        if not self._ending:
            self._collect()
            self._end()

    def fail(self, failure: ApiFailure) -> None:
        """End with an ERROR event."""
        if not self._ending:
            self._ready.append(_event_line(b"ERROR", encode(failure.to_json())))
            self._end()

    def close(self) -> None:
        """End now, and drop lines that were not taken."""
        self._ready = []
        self._end()

    def _end(self) -> None:
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._converting is not None:
            self._converting.cancel()
        if self._close_listener is not None:
            self._close_listener(self)
        self.notify()
        self._listener = None

    # --- what to send ---

    def _collect(self) -> None:
        if self._position == self._timeline.end:
            return
        if self._position < self._timeline.dropped:
            self.fail(expired(self._after, self._log.trimmed))
            return
        for position, change in enumerate(self._timeline.since(self._position), self._position):
            if change.version > self._after and self._selection.wants(change.key):
                try:
                    line = self._change_line(change)
                except Unconverted as missing:
                    self._position = position
                    self._convert(missing)
                    return
                if line is not None:
                    self._ready.append(line)
        self._position = self._timeline.end

    def _convert(self, missing: Unconverted) -> None:
        """Continue after the conversion. If it fails, stay silent until the next change."""
        if self._converting is None:
            converting = shown(missing.stored, missing.resource)
            self._converting = asyncio.get_running_loop().create_task(converting)
            self._converting.add_done_callback(self._note_converted)

    def _note_converted(self, task: asyncio.Task[bytes]) -> None:
        self._converting = None
        if not task.cancelled() and task.exception() is None:
            self.notify()

    def _change_line(self, change: StoredChange) -> bytes | None:
        matched = change.old is not None and self._selects(change.old)
        if change.new is not None and self._selects(change.new):
            return self._shared_line(change, "MODIFIED" if matched else "ADDED", change.new)
        return self._shared_line(change, "DELETED", change.left) if matched else None

    def _selects(self, stored: Stored) -> bool:
        return not self._narrows or self._selection.matches(stored)

    def _shared_line(self, change: StoredChange, kind: str, stored: Stored) -> bytes:
        if self._form.kind == "table":
            return self._line(kind, stored)
        shared = (kind, self.resource, self._form.kind, self._form.version)
        line = change.lines.get(shared)
        if line is None:
            line = change.lines[shared] = self._line(kind, stored)
        return line

    def _line(self, kind: str, stored: Stored) -> bytes:
        body = body_in(stored, self.resource)
        body = render_object(self._table, self.resource, body, self._form, str(stored.version))
        if self._form.kind == "table" and self._columns_sent:
            body = _without_columns(body)
        self._columns_sent = True
        return _event_line(kind.encode(), body)

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        version = max(self._log.shown, self._after)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        if self._form.kind == "whole":
            kind, api_version = self.resource.kind, self.resource.api_version
        else:
            kind = "Table" if self._form.kind == "table" else "PartialObjectMetadata"
            api_version = f"{META}/{self._form.version}"
        body: dict[str, Any] = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self._form.kind == "table":
            body |= {"columnDefinitions": [], "rows": []}
        return _event_line(b"BOOKMARK", encode(body))

    # --- time ---

    async def _sleep(self) -> None:
        """A plain future: every watch sleeps after every event, and a scope costs more."""
        self._woken = asyncio.get_running_loop().create_future()
        try:
            await self._woken
        finally:
            self._woken = None

    def _note_time(self) -> None:
        self._timer = None
        if self._listener is not None or self._woken is not None:
            self._pass_time()
            self.notify()

    def _pass_time(self) -> None:
        """Do what is due, and set a timer for what is due next."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._deadline is None:
            self._deadline = now + self._timeout
            self._schedule_bookmark(now)
        if now >= self._next_bookmark:
            self._schedule_bookmark(now)
            self._collect()
            if 0 < self._timeline.end == self._position and not self._ending:
                self._ready.append(self._bookmark())
        if now >= self._deadline:
            self.finish()
        due = min(self._deadline, self._next_bookmark)
        if due < math.inf and not self._ending:
            self._timer = loop.call_at(due, self._note_time)

    def _schedule_bookmark(self, now: float) -> None:
        assert self._deadline is not None
        last = self._deadline - BOOKMARK_BEFORE_END
        self._next_bookmark = min(now + BOOKMARK_PERIOD, last) if self._bookmarks and last > now else math.inf


def _event_line(kind: bytes, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind, body)


def _without_columns(body: bytes) -> bytes:
    table = msgspec.json.decode(body)
    table["columnDefinitions"] = []
    return encode(table)
