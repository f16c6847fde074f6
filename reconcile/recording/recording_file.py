"""Writes a recording as a ring of two files: the present one, and the one before it (`FILE.1`).

What is recorded is only appended to a list in the event loop; a thread masks, encodes, compresses and writes
it a few times a second. On the clock of a test that happens in step, so that no thread races with virtual
time. A failure to write ends the recording with one line in the log, and never the operator.
"""

import errno
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from pathlib import Path

import msgspec
import structlog
from attrs import define, field

from reconcile.recording.event_tables import MOST_EVENTS, TableWriter
from reconcile.recording.recorded_events import FORMAT, Header, TimedEvent
from reconcile.recording.recording_frames import MAGIC, FrameWriter
from reconcile.recording.secret_masks import SecretMasks, TooManyExposed

PERIOD = 0.25
"""Seconds between two writes."""
MOST_WAITING = 64 << 20
"""Bytes that may wait to be written: beyond that the disk has been stuck for long, and the recording ends."""
LAST_SECONDS = 5.0
"""Seconds that the end of a manager waits for the disk."""
_IN_STEP = 1 << 20
_LARGEST_FRAME = 4 << 20
_IN_USE = (
    "another manager records to {}: give each a file of its own, "
    "such as RECONCILE_RECORD=/recordings/$(POD_NAME).rec"
)

Masked = Callable[[SecretMasks], TimedEvent]
"""Makes an event that is fit to be written, in the thread that writes."""


class _Mark(Enum):
    """What is between events."""

    NEXT_FILE = auto()
    """The events after it belong to the next file."""
    ALL_STORED = auto()
    """The content of the caches is complete."""


@define(eq=False)
class RecordingFile:
    """The ring of one recording; `megabytes` bound both of its files together, which no other writes to.

    `header` makes the header of a file by its number, `log` gets the one warning. `in_step`: write in the
    thread that records. `rotating` is true when the caller has to give the content of its caches, by
    `rotate`.
    """

    path: Path
    megabytes: float
    masks: SecretMasks
    header: Callable[[int], Header]
    log: structlog.stdlib.BoundLogger
    in_step: bool = False
    rotating: bool = field(default=False, init=False)
    ended: bool = field(default=False, init=False)
    """Whether nothing is recorded any more."""
    # The loop appends and adds, the thread takes: each number is changed by one of them.
    _waiting: deque[tuple[Masked | _Mark, int]] = field(factory=deque, init=False)
    _added: int = field(default=0, init=False)
    _taken: int = field(default=0, init=False)
    _descriptor: int = field(default=-1, init=False)
    _asked: bool = field(default=False, init=False)
    """Whether the caller was asked to rotate, which it does some time later."""
    _frames: FrameWriter = field(init=False)
    _tables: TableWriter = field(init=False)
    _gathered: int = field(default=0, init=False)
    """Bytes of the events that are in no frame yet, about."""
    _written: int = field(default=0, init=False)
    _stored: int = field(default=0, init=False)
    """Bytes of the present file that the content of the caches takes."""
    _part: int = field(default=0, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _stop: threading.Event = field(factory=threading.Event, init=False)
    _turn: threading.Lock = field(factory=threading.Lock, init=False)

    def open(self) -> None:
        """Begin to write. A file that is there becomes `FILE.1`."""
        try:
            self._begin(0)
        except OSError as error:
            self._fail(error.strerror or str(error))
        if not (self.in_step or self.ended):
            self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
            self._thread.start()

    def add(self, event: Masked, size: int) -> None:
        """Have an event written, of about so many bytes."""
        if self.ended:
            return
        self._waiting.append((event, size))
        self._added += size
        if self.in_step and self._added - self._taken > _IN_STEP:
            self._write()
        elif self._added - self._taken > MOST_WAITING:
            self._fail(f"more than {MOST_WAITING >> 20} MB wait to be written")

    def rotate(self, stored: Callable[[], Iterable[Masked]]) -> None:
        """Begin the next file, whose first events are those of `stored`."""
        self.rotating = False
        # These take no room: the objects are in the caches, however many wait to be written.
        events = [(event, 0) for event in stored()]
        self._waiting += [(_Mark.NEXT_FILE, 0), *events, (_Mark.ALL_STORED, 0)]

    def close(self) -> None:
        """Write what waits, and end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=LAST_SECONDS)
            if self._thread.is_alive():
                self._fail(f"the last events could not be written within {LAST_SECONDS:g} s")
                return
        self._write()
        self.ended = True
        self._end()

    # --- in the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.wait(PERIOD) and not self.ended:
            self._write()

    def _write(self) -> None:
        with self._turn:
            if self.ended:
                self._end()
                return
            try:
                self._write_all(len(self._waiting))
            except OSError as error:
                self._fail(error.strerror or str(error))
            except TooManyExposed as error:
                self._fail(str(error))
            except Exception as error:
                # Never the text of such an error: it may quote what was not masked yet.
                self._fail(f"an event cannot be written: {type(error).__name__}")

    def _write_all(self, count: int) -> None:
        for _ in range(count):
            event, size = self._waiting.popleft()
            self._taken += size
            if event is _Mark.NEXT_FILE:
                self._put()
                self._end()
                self._begin(self._part + 1)
            elif event is _Mark.ALL_STORED:
                self._put()
                self._stored = self._written
            else:
                self._tables.add(event(self.masks))
                self._gathered += size
                # The content of caches comes without a size: there the bodies count.
                largest = max(self._gathered, self._tables.size)
                if self._tables.count == MOST_EVENTS or largest > _LARGEST_FRAME:
                    self._put()
        self._put()
        half = self.megabytes * 450_000  # with room for what waits meanwhile
        if self._stored > half / 2:
            needed = self._stored * 4 / 1e6
            self._fail(f"the objects in the caches need record_mb={needed:.0f}")
        elif self._written > half and not self._asked:
            # Once for each file: the caller may rotate while this thread still writes what was there before.
            self._asked = self.rotating = True

    def _put(self) -> None:
        if self._tables.count:
            self._append(self._frames.frame(self._tables.frame()))
            self._gathered = 0

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._written += len(data)

    # --- files ------------------------------------------------------------------------------------

    def _begin(self, part: int) -> None:
        earlier = previous_of(self.path)
        _check_replaceable(earlier)
        if _check_replaceable(self.path):
            os.replace(self.path, earlier)
        # Exclusively: in a folder that others may write to, the name may be a link of theirs.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        _lock(self._descriptor)
        self._part, self._written, self._stored, self._asked = part, 0, 0, False
        self._frames, self._tables = FrameWriter(), TableWriter()
        self._append(self._frames.first_line(FORMAT))
        self._append(self._frames.frame(msgspec.msgpack.encode(self.header(part))))

    def _end(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _fail(self, why: str) -> None:
        if not self.ended:
            self.ended = True
            self._waiting.clear()
            self.log.warning("the recording has ended", file=str(self.path), why=why)


def _check_replaceable(path: Path) -> bool:
    """Whether there is a recording; False for nothing. Raises OSError for anything else: it is not ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or os.read(descriptor, len(MAGIC)) not in (
            MAGIC,
            b"",
        ):
            raise FileExistsError(errno.EEXIST, f"{path.name} is there, and is not a recording")
        if not _lock(descriptor):
            raise FileExistsError(errno.EEXIST, _IN_USE.format(path.name))
    finally:
        os.close(descriptor)
    return True


def _lock(descriptor: int) -> bool:
    """Whether no other recorder writes to a file, nor will until it is closed; true where nothing locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # a system, or a disk, without locks
        return True
    return True


def previous_of(path: Path) -> Path:
    """The file before the present one of a ring."""
    return path.with_name(f"{path.name}.1")
