"""Compacts old segments into a base, which has the newest record of each object and no removals."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from attrs import frozen

from reconcile.embedded.durable import records
from reconcile.embedded.durable.files import (
    Damage,
    DataFault,
    LogFile,
    base_path,
    current,
    log_files,
    reading,
    replacing,
    sync,
    write_all,
)
from reconcile.embedded.durable.reading import head_of, records_of
from reconcile.embedded.durable.records import FileHead, Record

log = logging.getLogger(__name__)

KEPT_BYTES: Final = 32 * 1024 * 1024
"""How much of the newest segments stays as it is, as the history that watches may resume in."""
_WASTE: Final = 32 * 1024 * 1024  # what is superseded may take, beside as much again as the objects
# A copy of the folder that is under way may still read superseded files: a 2 GiB copy takes less.
SUPERSEDED_SECONDS: Final = 300.0
# Written and synced by pieces, so that a group of records never waits for all of a base.
_PIECE: Final = 4 * 1024 * 1024


@frozen
class Plan:
    """A base and segments to become one base."""

    base: LogFile | None
    segments: Sequence[LogFile]


def due(folder: Path, writing: int, live: int) -> Plan | None:
    """What to compact before segment `writing`, if the log is well over the `live` bytes of all objects."""
    base, segments, _ = current(log_files(folder))
    closed = [segment for segment in segments if segment.number < writing]
    sizes = {one.path: one.path.stat().st_size for one in [*segments, *([base] if base else [])]}
    if sum(sizes.values()) <= 2 * live + _WASTE + KEPT_BYTES:
        return None
    kept = 0
    while closed and (kept := kept + sizes[closed[-1].path]) <= KEPT_BYTES:
        del closed[-1]
    return Plan(base, closed) if closed else None


class Interrupted(Exception):
    """The compaction is to stop."""


@frozen
class _Span:
    file: int
    offset: int
    end: int


def compact(folder: Path, plan: Plan, interrupted: Callable[[], bool]) -> None:
    """Write the base; what it supersedes stays.

    Raises OSError, DataFault or Interrupted, and then there is no base.
    """
    files = [*([plan.base] if plan.base is not None else []), *plan.segments]
    newest: dict[tuple[str, str, str, str], _Span] = {}
    version, store = 0, ""
    for at, log_file in enumerate(files):
        with reading(log_file.path) as file:
            head = head_of(log_file, file)
            if head is None:
                raise Damage(log_file, 0, "its head is cut off")
            store, version = head.store, max(version, head.after)
            for frame, record in records_of(log_file, file):
                if frame is None or interrupted():
                    raise Interrupted
                version = max(version, record.version)
                newest.pop(record.place, None)  # also to keep the order of their versions
                if record.body is not None:
                    newest[record.place] = _Span(at, frame.offset, frame.end)
    number = files[-1].number
    with replacing(base_path(folder, number)) as descriptor:
        write_all(descriptor, records.encode_file_head(FileHead(store, number, version, base=True)))
        for piece in _pieces(files, list(newest.values())):
            if interrupted():
                raise Interrupted
            write_all(descriptor, piece)
            sync(descriptor)
        write_all(descriptor, records.encode_record(Record(version, version, "", "", "", ""), 0))


def _pieces(files: Sequence[LogFile], spans: Iterable[_Span]) -> Iterator[bytes]:
    """The bytes of these spans, joined to pieces."""
    piece: list[bytes] = []
    size = 0
    with ExitStack() as stack:
        opened = [stack.enter_context(reading(one.path)) for one in files]
        for span in spans:
            opened[span.file].seek(span.offset)
            piece.append(opened[span.file].read(span.end - span.offset))
            size += span.end - span.offset
            if size >= _PIECE:
                yield b"".join(piece)
                piece, size = [], 0
        yield b"".join(piece)


def sweep(folder: Path, now: float) -> None:
    """Remove files that were superseded some time ago. Raises OSError."""
    base, _, superseded = current(log_files(folder))
    if base is None or now - base.path.stat().st_mtime < SUPERSEDED_SECONDS:
        return
    for one in superseded:
        one.path.unlink(missing_ok=True)


class Compactor:
    """Compacts in a thread of its own. `live` is the bytes of all objects, `now` the time."""

    def __init__(self, folder: Path, live: Callable[[], int], now: Callable[[], float]) -> None:
        self._folder = folder
        self._live = live
        self._now = now
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def look(self, writing: int) -> None:
        """Compact what is due before segment `writing`, unless a compaction is under way."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._work, args=(writing,), name="reconcile-compaction", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Stop a compaction that is under way; the next start does it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self, writing: int) -> None:
        try:
            sweep(self._folder, self._now())
            plan = due(self._folder, writing, self._live())
            if plan is not None:
                compact(self._folder, plan, self._stop.is_set)
        except Interrupted:
            pass
        except (OSError, DataFault) as error:
            # Nothing is lost by it: the segments stay, and the next full one makes it try again.
            log.warning("cannot compact the log in %s: %s", self._folder, error)
