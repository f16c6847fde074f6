"""Hands changes to a thread that writes them in groups, and tells the log when they are on disk."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from reconcile.embedded.durable.records import Form, Record
from reconcile.embedded.durable.segments import SegmentWriter
from reconcile.embedded.log import Log, StoredChange
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import internal
from reconcile.embedded.served import ServedResource

RETRY_SECONDS: Final = 1.0
"""After a write that failed, how long further ones are refused at once."""

log = logging.getLogger(__name__)


def not_kept(error: Exception) -> ApiFailure:
    """500 for a write that is not on disk, and that left no trace."""
    return internal(f"the write could not be kept on disk: {error}")


def record_of(change: StoredChange, before: int) -> Record:
    group, plural = change.resource
    form = body = None
    if change.new is not None:
        form, body = form_of(change.new.encoded_by), change.new.body
    return Record(change.version, before, group, plural, change.key.namespace, change.key.name, form, body)


def form_of(resource: ServedResource) -> Form:
    return Form(resource.group, resource.version, resource.plural, resource.made_from)


class FileJournal:
    """The journal of one log. One thread writes; all else happens on the server's.

    While a group is being written, the changes that come meanwhile become the next one. If a group fails, it
    and the changes that came meanwhile are taken back.
    """

    def __init__(self, changes: Log, writer: SegmentWriter) -> None:
        self._log = changes
        self._writer = writer
        self.losses = 0  # how often changes were taken back
        self.on_loss: Callable[[], None] = _nothing  # called when they have been
        self.on_retry: Callable[[], None] = _nothing  # called when writes are tried again
        self._lost_to = Exception("unknown")
        self._refusing: Exception | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        # What both threads use, under this lock.
        self._changed = threading.Condition()
        self._queue: list[StoredChange] = []
        self._written = changes.version
        self._failure: Exception | None = None
        self._busy = False
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="reconcile-log", daemon=True)
        self._thread.start()

    # --- the server's thread ---

    @property
    def refusing(self) -> bool:
        """Whether writes are refused because the last one failed a moment ago."""
        return self._refusing is not None

    def keep(self, change: StoredChange) -> None:
        """Begin to write a change. Raises ApiFailure (500) shortly after one that could not be written."""
        if self._refusing is not None:
            raise not_kept(self._refusing)
        with self._changed:
            self._queue.append(change)
            if len(self._queue) == 1:
                self._changed.notify_all()

    def attend(self) -> None:
        """Take note of what is written in the event loop that runs now."""
        self._loop = asyncio.get_running_loop()

    async def until(self, version: int) -> None:
        """Wait until the changes up to `version` are on disk. Raises ApiFailure (500) if they are not."""
        self.attend()
        self._take_note()
        if self._log.shown >= version:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((version, future))
        await future

    def require_no_loss_since(self, losses: int) -> None:
        """Raises ApiFailure (500) if changes were taken back since `losses` was read."""
        if self.losses != losses:
            raise not_kept(self._lost_to)

    def flush(self) -> None:
        """Wait, without the event loop, until all changes are on disk. Raises ApiFailure as `until` does."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not (self._queue or self._busy))
        losses = self.losses
        self._take_note()
        self.require_no_loss_since(losses)

    def close(self) -> None:
        """Write what is left, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._take_note()
        self._writer.close()

    def _take_note(self) -> None:
        """Show what was written, or take back what was not."""
        with self._changed:
            written, failure = self._written, self._failure
        self._log.show(written)
        while self._waiting and self._waiting[0][0] <= self._log.shown:
            _resolve(self._waiting.popleft()[1], None)
        if failure is not None:
            self._lose(failure)

    def _lose(self, failure: Exception) -> None:
        log.error("cannot write the log, and refuse writes until it is possible again: %s", failure)
        self.losses += 1
        self._lost_to = failure
        self._log.take_back()
        self.on_loss()
        with self._changed:
            self._queue.clear()
            self._failure = None
        while self._waiting:
            _resolve(self._waiting.popleft()[1], not_kept(failure))
        if self._loop is not None and not self._loop.is_closed():
            self._refusing = failure
            self._loop.call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._refusing = None
        self.on_retry()

    # --- the thread that writes ---

    def _work(self) -> None:
        while (group := self._next_group()) is not None:
            failure = self._write(group)
            with self._changed:
                self._busy = False
                if failure is None:
                    self._written = group[-1].version
                else:
                    self._failure = failure
                self._changed.notify_all()
            self._call_back()

    def _next_group(self) -> Sequence[StoredChange] | None:
        with self._changed:
            # After a failure nothing is written until the changes that build on it are taken back.
            self._changed.wait_for(lambda: self._closing or (self._queue and self._failure is None))
            if not self._queue or self._failure is not None:
                return None
            group, self._queue = self._queue, []
            self._busy = True
            return group

    def _write(self, group: Sequence[StoredChange]) -> Exception | None:
        before = [self._writer.version, *(change.version for change in group[:-1])]
        try:
            self._writer.append([record_of(change, one) for change, one in zip(group, before, strict=True)])
        except Exception as error:
            return error
        return None

    def _call_back(self) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._take_note)
        except RuntimeError:  # the loop has ended; the next call of `flush` or `until` takes note
            return


def _resolve(future: asyncio.Future[None], failure: ApiFailure | None) -> None:
    if future.done():  # its request was cancelled
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


def _nothing() -> None: ...
