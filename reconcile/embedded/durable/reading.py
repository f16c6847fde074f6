"""Reads a data folder's log, and refuses one that is not whole."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from attrs import define, field, frozen

from reconcile.embedded.durable import records
from reconcile.embedded.durable.files import (
    Damage,
    DataFault,
    Frame,
    LogFile,
    current,
    frames,
    log_files,
    reading,
)
from reconcile.embedded.durable.records import FileHead, Record

_LINE = 64  # more than the first line of any format


@frozen
class Tail:
    """Where the next record goes."""

    file: LogFile
    size: int  # of what can be read
    torn: int  # bytes after that, which a crash left


@define
class Found:
    """What a log holds."""

    store: str = ""
    version: int = 0
    compacted: int = 0
    """The version up to which `objects` have no history."""
    objects: list[Record] = field(factory=list)
    changes: list[Record] = field(factory=list)
    tail: Tail | None = None
    """None if there is no log yet."""


def load(folder: Path) -> Found:
    """Everything that was written, in order.

    Raises:
        Damage: A record is damaged or missing. The end that a crash leaves is none.
        DataFault: A file cannot be read, is of another folder, or of a newer version.
    """
    base, segments, _ = current(_files_of(folder))
    found = Found()
    if base is not None:
        _load_base(base, found)
    for at, segment in enumerate(segments):
        expected = (0 if base is None else base.number) + at + 1
        if segment.number != expected:
            raise Damage(segment, 0, f"segment {expected} before it is missing")
        _load_segment(segment, found, last=at == len(segments) - 1)
    if base is not None and not segments:
        raise Damage(base, base.path.stat().st_size, f"segment {base.number + 1} after it is missing")
    return found


def _files_of(folder: Path) -> list[LogFile]:
    try:
        return log_files(folder)
    except OSError as error:
        raise DataFault(f"cannot read {folder}", error.strerror or str(error)) from None


def _load_base(base: LogFile, found: Found) -> None:
    with reading(base.path) as file:
        head = head_of(base, file)
        if head is None:
            raise Damage(base, 0, "its head is cut off")
        _check_head(base, head, found)
        end = file.tell()
        complete = False
        for frame, record in records_of(base, file):
            if frame is None:
                raise Damage(base, end, "a record cannot be read")
            end = frame.end
            complete = not record.plural
            if not complete:
                found.objects.append(record)
        if not complete:
            raise Damage(base, end, "its end is missing")
    found.version = found.compacted = head.after


def _load_segment(segment: LogFile, found: Found, *, last: bool) -> None:
    with reading(segment.path) as file:
        head = head_of(segment, file)
        if head is None:
            if not last:
                raise Damage(segment, 0, "its head is cut off")
            found.tail = Tail(segment, 0, segment.path.stat().st_size)
            return
        _check_head(segment, head, found)
        if not found.version:
            found.version = found.compacted = head.after
        if head.after != found.version:
            raise Damage(segment, 0, f"the records before it end at {found.version} and not at {head.after}")
        end = file.tell()
        torn = 0
        for frame, record in records_of(segment, file):
            if frame is None:
                if not last:
                    raise Damage(segment, end, "a record is cut off")
                torn = segment.path.stat().st_size - end
                break
            if record.before != found.version:
                raise Damage(segment, end, f"the record after {found.version} is missing")
            end = frame.end
            found.version = record.version
            found.changes.append(record)
    found.tail = Tail(segment, end, torn)


_NOTHING = Record(0, 0, "", "", "", "")


def records_of(log: LogFile, file: BinaryIO) -> Iterator[tuple[Frame | None, Record]]:
    """The records of a file after its head; no frame stands for an end that is torn. Raises Damage."""
    for frame in frames(file, file.tell()):
        if not isinstance(frame, Frame):
            if records.judge(frame.rest, frame.offset) == "damaged":
                raise Damage(log, frame.offset, "a record differs from its checksum")
            yield None, _NOTHING
            return
        try:
            yield frame, frame.record()
        except ValueError as error:
            raise Damage(log, frame.offset, f"a record cannot be read ({error})") from None


def head_of(log: LogFile, file: BinaryIO) -> FileHead | None:
    """The head of a file, at whose start it is read; None if it is torn."""
    line = file.readline(_LINE)
    version = records.format_of(line)
    if version is None:
        if file.tell() < _LINE and not line.endswith(b"\n") and records.FIRST_LINE.startswith(line):
            return None
        raise Damage(log, 0, "it does not begin as a log does")
    if version > records.FORMAT:
        raise DataFault(
            f"{log.path} has format {version}, and this version of reconcile-runtime reads {records.FORMAT}",
            "use the newer one that wrote it",
        )
    found = next(frames(file, len(line)), None)
    if isinstance(found, Frame):
        file.seek(found.end)
        return records.decode_file_head(found.payload)
    if found is None or records.judge(found.rest, found.offset) == "torn":
        return None
    raise Damage(log, 0, "its head differs from its checksum")


def _check_head(log: LogFile, head: FileHead, found: Found) -> None:
    if found.store and head.store != found.store:
        raise DataFault(
            f"{log.path} is of another data folder", "remove it, or restore the folder as a whole"
        )
    found.store = head.store
    if (head.number, head.base) != (log.number, log.base):
        raise Damage(log, 0, f"it is that of number {head.number}")


# --- what is lost -----------------------------------------------------------------------------


@frozen
class Lost:
    """What a repair drops."""

    records: int
    bytes: int
    objects: int


def count(parts: Iterable[tuple[LogFile, int]]) -> tuple[Lost, int]:
    """What the files hold from these offsets on, as far as it can be read, and the newest version of it."""
    size, found = 0, []
    for log, offset in parts:
        data = log.path.read_bytes()[offset:]
        size += len(data)
        found += [record for record in _readable(data) if record.plural]
    newest = max((record.version for record in found), default=0)
    return Lost(len(found), size, len({record.place for record in found})), newest


def _readable(data: bytes) -> Iterator[Record]:
    for _, _, payload in records.whole_frames(data):
        try:
            yield records.decode_record(payload)
        except ValueError:
            continue  # the head of a file
