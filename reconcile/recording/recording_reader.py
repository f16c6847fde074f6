"""Reads recordings. They are input like any other: what is wrong with one is said, and never trusted."""

import datetime
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from attrs import frozen

from reconcile.recording.recorded_events import FORMAT, Event, Header, TimedEvent
from reconcile.recording.recording_file import previous_of
from reconcile.recording.recording_frames import DamagedFrame, read_first_line, read_pieces

LONGEST = 1 << 32
"""Bytes of a whole file, decompressed: what a ring of 100 MB has is a tenth of that."""

_decoder = msgspec.msgpack.Decoder(Event)


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


def _opened(path: Path) -> tuple[Header, "_Events"]:
    events = _Events(path)
    first = next(events, None)
    if not isinstance(first, Header):
        events.close()
        raise RecordingProblem(f"{path} is a recording without a beginning: its first frame was cut off")
    if first.format != FORMAT:
        events.close()
        raise RecordingProblem(_other_format(path, first.format))
    try:
        datetime.datetime.fromisoformat(first.began)
    except ValueError:
        events.close()
        raise RecordingProblem(f"{path} does not say when it began") from None
    return first, events


class _Events(Iterator[Event]):
    """The events of one file, its header first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise RecordingProblem(f"cannot read {path}: {error.strerror or error}") from None
        self._events = self._read()

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        self._events.close()
        self._file.close()

    def _read(self) -> Generator[Event]:
        try:
            with self._file as file:
                version, compression = read_first_line(file)
                if version != FORMAT:
                    raise RecordingProblem(_other_format(self._path, version))
                total = 0
                for piece in read_pieces(file, compression):
                    total += len(piece)
                    if total > LONGEST:
                        raise DamagedFrame(f"more than {LONGEST >> 30} GB")
                    yield from _decoded(piece)
        except RecordingProblem:
            raise
        except ImportError:
            raise RecordingProblem(
                f"{self._path} is compressed with zstd: pip install 'reconcile-runtime[zstd]'"
            ) from None
        except (ValueError, OSError) as error:
            raise RecordingProblem(f"{self._path} is not a recording that can be read: {error}") from None


def _decoded(piece: bytes) -> Iterator[Event]:
    place = 0
    while place < len(piece):
        size = int.from_bytes(piece[place : place + 4], "big")
        end = place + 4 + size
        if end > len(piece):
            raise DamagedFrame("an event is longer than its frame")
        try:
            yield _decoder.decode(memoryview(piece)[place + 4 : end])
        except (msgspec.DecodeError, RecursionError) as error:
            raise DamagedFrame(f"an event cannot be read: {error}") from None
        place = end


def _other_format(path: Path, version: int) -> str:
    return (
        f"{path} has format {version}, and this version reads format {FORMAT}: "
        "use the version of reconcile-runtime that made it"
    )
