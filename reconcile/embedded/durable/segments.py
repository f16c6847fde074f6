"""Appends groups of records to the log's last segment."""

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from reconcile.embedded.durable.files import LogFile, replacing, segment_path, sync, write_all
from reconcile.embedded.durable.reading import Tail
from reconcile.embedded.durable.records import FileHead, Record, encode_file_head, encode_record

SEGMENT_BYTES: Final = 16 * 1024 * 1024

log = logging.getLogger(__name__)


class SegmentWriter:
    """The open end of the log. A group that cannot be written as a whole leaves nothing behind.

    `on_new_segment` is called with the number of each segment that follows a full one.
    """

    def __init__(self, folder: Path, store: str, tail: Tail | None, version: int) -> None:
        """Raises OSError."""
        self._folder = folder
        self._store = store
        self.version = version
        self.on_new_segment: Callable[[int], None] = _nothing
        self._soiled = False  # whether bytes may follow what was answered
        self._stray: Path | None = None  # a segment that may have been begun in vain
        if tail is None:
            self._begin(1)
        elif not tail.size:
            self._begin(tail.file.number)
        else:
            self._continue(tail)

    @property
    def number(self) -> int:
        """The number of the segment that is being written."""
        return self._number

    def _continue(self, tail: Tail) -> None:
        self._descriptor = _opened(tail.file)
        self._number, self._size = tail.file.number, tail.size
        if tail.torn:
            self._soiled = True
            try:
                self._clean()
            except OSError:
                self.close()
                raise

    def _begin(self, number: int) -> None:
        path = segment_path(self._folder, number)
        head = encode_file_head(FileHead(self._store, number, self.version))
        with replacing(path) as descriptor:
            write_all(descriptor, head)
        self._descriptor = _opened(LogFile(path, number, base=False))
        self._number, self._size = number, len(head)

    def append(self, group: Sequence[Record]) -> None:
        """Write the records and wait until they are on disk. Raises OSError, and then none of them is."""
        if self._soiled:
            self._clean()
        data = b"".join([encode_record(record, self._size) for record in group])
        try:
            write_all(self._descriptor, data)
            sync(self._descriptor)
        except OSError:
            self._soiled = True
            with contextlib.suppress(OSError):  # else the next group tries again
                self._clean()
            raise
        self._size += len(data)
        self.version = group[-1].version
        if self._size >= SEGMENT_BYTES:
            self._go_on()

    def _clean(self) -> None:
        if self._stray is not None:
            self._stray.unlink(missing_ok=True)
            self._stray = None
        os.ftruncate(self._descriptor, self._size)
        sync(self._descriptor)
        self._soiled = False

    def _go_on(self) -> None:
        before = self._descriptor
        try:
            self._begin(self._number + 1)
        except OSError as error:
            log.warning("cannot begin a new segment in %s, so the old one grows: %s", self._folder, error)
            # It may be there all the same, and would say that this one has ended.
            self._stray = segment_path(self._folder, self._number + 1)
            self._soiled = True
            return
        os.close(before)
        self.on_new_segment(self._number)

    def close(self) -> None:
        os.close(self._descriptor)


def _opened(file: LogFile) -> int:
    return os.open(file.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))


def _nothing(_number: int) -> None: ...
