"""Reads recordings. They are input from outside: each error is reported, and nothing in them is trusted."""

import datetime
import stat
from collections.abc import Generator
from pathlib import Path

import msgspec
from attrs import frozen

from reconcile.recording.event_tables import TableReader
from reconcile.recording.recorded_events import READABLE, Event, Header, TimedEvent
from reconcile.recording.recording_file import previous_of
from reconcile.recording.recording_frames import DamagedFrame, read_first_line, read_pieces

LONGEST = 1 << 38
"""Bytes of a whole file, with all its bodies: 100 MB of a ring stand for some 10 GB."""

LARGEST_HEADER = 1 << 20
_COPY_AGAIN = "copy it again from where it was recorded"

_decoder = msgspec.msgpack.Decoder(Header)


class RecordingProblem(ValueError):
    """A file is not a recording that can be read; the text says what to do."""


@frozen
class Recording:
    """The files of one recording, the oldest first, with the header of the oldest."""

    files: tuple[Path, ...]
    header: Header

    def events(self) -> Generator[TimedEvent]:
        """All events in their order; of a file that was cut off, up to the last whole frame.

        Raises RecordingProblem.
        """
        for number, path in enumerate(self.files):
            header, events = _opened(path)
            if header.recording != self.header.recording or header.part != self.header.part + number:
                raise RecordingProblem(f"{path} has changed while it was read: copy it first")
            try:
                yield from (event for event in events if not isinstance(event, Header))
            finally:
                events.close()


def read_recording(path: Path) -> Recording:
    """The recording of a file, with the file before it if that belongs to it. Raises RecordingProblem."""
    header, events = _opened(path)
    events.close()
    earlier = previous_of(path)
    if header.part > 0 and earlier.exists():
        before, events = _opened(earlier)
        events.close()
        if before.recording == header.recording and before.part == header.part - 1:
            return Recording((earlier, path), before)
    return Recording((path,), header)


def _opened(path: Path) -> tuple[Header, Generator[Event]]:
    events = _read(path)
    first = next(events, None)
    if not isinstance(first, Header):
        events.close()
        raise RecordingProblem(f"{path} is a recording whose first frame was cut off: {_COPY_AGAIN}")
    if first.format not in READABLE:
        events.close()
        raise RecordingProblem(_other_format(path, first.format))
    if not _is_moment(first.began):
        events.close()
        raise RecordingProblem(f"{path} does not say when it began: {_COPY_AGAIN}")
    return first, events


def _is_moment(text: str) -> bool:
    try:
        return datetime.datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _read(path: Path) -> Generator[Event]:
    """The events of one file, its header first."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # it is read twice, and a pipe could hold up the program
            raise RecordingProblem(f"{path} is not a file")
        with path.open("rb") as file:
            try:
                version, compression = read_first_line(file)
            except DamagedFrame:
                raise RecordingProblem(f"{path} is not a recording: name the file of `record=`") from None
            if version not in READABLE:
                raise RecordingProblem(_other_format(path, version))
            tables, read = TableReader(), 0
            pieces = read_pieces(file, compression)
            if (first := next(pieces, None)) is not None:
                yield _header_of(first)
            for piece in pieces:
                read += len(piece)
                if read + tables.size > LONGEST:
                    raise DamagedFrame(f"more than {LONGEST >> 30} GB")
                yield from tables.read(piece)
    except RecordingProblem:
        raise
    except ImportError:
        raise RecordingProblem(
            f"{path} is compressed with zstd: pip install 'reconcile-runtime[zstd]'"
        ) from None
    except OSError as error:
        raise RecordingProblem(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise RecordingProblem(f"{path} cannot be read as a recording: {error}; {_COPY_AGAIN}") from None


def _header_of(piece: bytes) -> Header:
    if len(piece) > LARGEST_HEADER:
        raise DamagedFrame(f"a header of {len(piece)} bytes")
    try:
        return _decoder.decode(piece)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DamagedFrame(f"its header cannot be read: {error}") from None


def _other_format(path: Path, version: int) -> str:
    return (
        f"{path} has format {version}, and this version reads formats {' and '.join(map(str, READABLE))}: "
        "use the version of reconcile-runtime that made it"
    )
