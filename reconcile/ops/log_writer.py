"""Writes log lines in a thread: a pipe that is not read must not stop the event loop.

The thread writes to the file descriptor itself. If it blocked within the stream's own buffer, Python could
not end: it flushes standard error at the end, and would wait for the buffer's lock.
"""

import contextlib
import io
import logging
import os
import stat
import threading
from collections import deque
from typing import IO, Any, Final

MAX_LINES: Final = 10_000
MAX_CHARACTERS: Final = 10_000_000
"""How much may wait for the reader of the log, besides what is being written; the rest is dropped."""
FLUSH_SECONDS: Final = 2.0
"""How long the end of the process waits for lines that are not written yet."""

_STANDARD: Final = 2
_FULL_AGAIN: Final = 0.05


class ThreadedHandler(logging.Handler):
    """Formats records where they are logged; a thread writes them in order, and reports dropped lines."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        number = stream.fileno()
        # A duplicate: once the stream is closed, its number may belong to a socket. Not of the standard ones,
        # since a program may redirect them later.
        self._descriptor = number if number <= _STANDARD else os.dup(number)
        self._owned = number > _STANDARD
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.dropped = 0
        """Lines dropped since the start of the process."""
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition(threading.RLock())
        self._lines: deque[str] = deque()
        self._characters = 0
        self._writing = False
        self._closing = False
        self._unreported = 0
        self._given_up = False
        self._pause = threading.Event()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
            if self._process != os.getpid():
                self._begin()  # a forked child has no thread, and the waiting lines are its parent's
            with self._changed:
                self._put(line)
        except Exception:
            self.handleError(record)

    def _put(self, line: str) -> None:
        if self._closing or len(self._lines) >= MAX_LINES or self._characters + len(line) > MAX_CHARACTERS:
            self.dropped += 1
            self._unreported += 1
            return
        if self._unreported and 2 * len(self._lines) <= MAX_LINES and 2 * self._characters <= MAX_CHARACTERS:
            self._append(self._dropped_line())
        self._append(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _dropped_line(self) -> str:
        number, self._unreported = self._unreported, 0
        message = "log lines were dropped: their reader was too slow"
        more: dict[str, Any] = {"event": message, "dropped": number}
        record = logging.LogRecord(
            "reconcile", logging.WARNING, __file__, 0, f"{message} dropped={number}", (), None
        )
        record.__dict__.update(more)
        return self.format(record) + "\n"

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._characters += len(line)

    def _write_all(self) -> None:
        changed = self._changed
        while True:
            with changed:
                self._writing = False
                changed.notify_all()
                changed.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                lines, self._lines, self._characters = self._lines, deque(), 0
                self._writing = True
            self._write("".join(lines).encode(self._encoding, "backslashreplace"))

    def _write(self, text: bytes) -> None:
        rest = memoryview(text)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process that shares the pipe has made it non-blocking
                self._pause.wait(_FULL_AGAIN)
            except OSError:  # the reader is gone
                return

    def flush(self) -> None:
        """Wait until everything is written, at most FLUSH_SECONDS."""
        if self._process != os.getpid():
            return
        with self._changed:
            if self._unreported and self._thread is not None:
                self._append(self._dropped_line())
                self._changed.notify_all()
            written = self._changed.wait_for(lambda: not self._lines and not self._writing, FLUSH_SECONDS)
            self._given_up = not written

    def close(self) -> None:
        """Write waiting lines, within FLUSH_SECONDS, and end the thread; later lines are dropped."""
        if self._process != os.getpid():
            super().close()
            return
        if not self._given_up:  # `logging.shutdown` flushes before it closes, and once is enough
            self.flush()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(0.1)
        if self._owned and (thread is None or not thread.is_alive()):
            self._owned = False
            os.close(self._descriptor)
        super().close()


def handler_on(stream: IO[str]) -> logging.Handler:
    """A handler that writes to `stream`: in a thread if that is a pipe, a socket or a terminal."""
    with contextlib.suppress(io.UnsupportedOperation, AttributeError, ValueError, OSError):
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return ThreadedHandler(stream)
    return logging.StreamHandler(stream)  # a file or a buffer in memory does not wait for a reader


def flush_log() -> None:
    """Write waiting lines, before something else is written to the same place."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, ThreadedHandler):
            handler.flush()
