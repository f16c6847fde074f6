"""The files of a data folder: their names, and writing them so that a crash leaves the old or the new one."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from attrs import frozen

from reconcile.embedded.durable import records
from reconcile.embedded.durable.records import Record

LOCK: Final = "lock"
KEYS: Final = "keys.json"
_LOG_FILE: Final = re.compile(r"(segment|base)-(\d{8})\.log")
_UNFINISHED: Final = ".tmp"
_REPAIR: Final = (
    "restore the folder from a copy, start `reconcile apiserver` with --repair, which drops what follows "
    "and says how much, or `reconcile dev` with --fresh, which drops everything"
)
_BUFFER: Final = 1024 * 1024


class DataFault(Exception):
    """A data folder cannot be used: what is wrong, and the next step. `repairable` if `--repair` helps."""

    def __init__(self, message: str, hint: str = "", *, repairable: bool = False) -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        self.message = message
        self.hint = hint
        self.repairable = repairable


@frozen
class LogFile:
    """A segment, or a base: what segments up to `number` came to."""

    path: Path
    number: int
    base: bool


class Damage(DataFault):
    """A record of the log is damaged or missing, at a place in a file."""

    def __init__(self, file: LogFile, offset: int, why: str) -> None:
        super().__init__(f"{file.path} is damaged at byte {offset}: {why}", _REPAIR, repairable=True)
        self.file = file
        self.offset = offset


@frozen
class Frame:
    offset: int
    end: int
    payload: bytes

    def record(self) -> Record:
        return records.decode_record(self.payload)


@frozen
class Unreadable:
    """The bytes from `offset` to the end of a file, whose first frame cannot be read."""

    offset: int
    rest: bytes


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"segment-{number:08}.log"


def base_path(folder: Path, number: int) -> Path:
    return folder / f"base-{number:08}.log"


def log_files(folder: Path) -> list[LogFile]:
    """The segments and bases of a folder by number. Raises OSError."""
    found = [(path, _LOG_FILE.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    files = [LogFile(path, int(match[2]), match[1] == "base") for path, match in found if match is not None]
    return sorted(files, key=lambda file: (file.number, file.base))


def current(files: list[LogFile]) -> tuple[LogFile | None, list[LogFile], list[LogFile]]:
    """The newest base, the segments after it, and the files that it supersedes."""
    base = next((file for file in reversed(files) if file.base), None)
    covered = 0 if base is None else base.number
    segments = [file for file in files if not file.base and file.number > covered]
    superseded = [file for file in files if file.number <= covered and file is not base]
    return base, segments, superseded


# --- reading ----------------------------------------------------------------------------------


def frames(file: BinaryIO, offset: int) -> Iterator[Frame | Unreadable]:
    """The frames from where `file` is, which is `offset`; the last may be one that cannot be read."""
    while head_bytes := file.read(records.HEAD_BYTES):
        head = records.read_head(head_bytes)
        payload = b"" if head is None else file.read(head.length)
        if head is None or not records.is_whole(head, payload):
            yield Unreadable(offset, head_bytes + payload + file.read())
            return
        end = offset + records.HEAD_BYTES + head.length
        yield Frame(offset, end, payload)
        offset = end


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Raises DataFault if the file cannot be opened or read."""
    try:
        with path.open("rb", buffering=_BUFFER) as file:
            yield file
    except OSError as error:
        raise DataFault(f"cannot read {path}", error.strerror or str(error)) from None


# --- writing ----------------------------------------------------------------------------------


def sync(descriptor: int) -> None:
    """Wait until a file's contents and its length are on disk."""
    (getattr(os, "fdatasync", None) or os.fsync)(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    if os.name == "nt":  # where a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Raises OSError, perhaps with a part of the bytes written."""
    view = memoryview(data)
    while view:
        written = os.write(descriptor, view)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[written:]


@contextmanager
def replacing(path: Path) -> Iterator[int]:
    """The descriptor of a new file, private to its owner, that is at `path` once the context is left well."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        try:
            yield descriptor
            sync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Raises OSError, and then the file is as it was."""
    with replacing(path) as descriptor:
        write_all(descriptor, content)


def remove_unfinished(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.endswith(_UNFINISHED):
            path.unlink(missing_ok=True)
