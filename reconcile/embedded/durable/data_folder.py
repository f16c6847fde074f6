"""A data folder: opened by one process, with the log, the server's keys, and what a repair drops."""

import base64
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec
from attrs import frozen

from informers.clock import Clock, SystemClock
from reconcile.embedded.durable import segments
from reconcile.embedded.durable.compaction import Compactor
from reconcile.embedded.durable.files import (
    KEYS,
    Damage,
    DataFault,
    LogFile,
    current,
    log_files,
    remove_unfinished,
    replace_file,
    segment_path,
    sync,
    sync_folder,
)
from reconcile.embedded.durable.journal import FileJournal
from reconcile.embedded.durable.locking import FolderLock
from reconcile.embedded.durable.reading import Found, Lost, count, head_of, load
from reconcile.embedded.durable.records import FileHead, Record, encode_file_head, encode_record
from reconcile.embedded.log import Log

_KEY_BYTES: Final = 32
_DAMAGED: Final = ".damaged"
# What may be in a folder without a log: that of a start that failed, and what file systems put there.
_HARMLESS: Final = frozenset({"lock", "lost+found", ".gitignore", ".DS_Store"})


class _Keys(msgspec.Struct):
    """What `keys.json` holds. The folder's id, and what clients have to find unchanged after a restart."""

    store: str
    values: dict[str, str] = {}


@frozen
class Repair:
    """What `--repair` dropped. The damaged files are beside the log, with `.damaged` at the end."""

    lost: Lost
    file: Path
    offset: int

    def __str__(self) -> str:
        lost = self.lost
        return (
            f"repaired {self.file}, damaged at byte {self.offset}: dropped {lost.bytes} bytes with "
            f"{lost.records} records of {lost.objects} objects; what was there is kept in files that end "
            f"with {_DAMAGED}"
        )


class DataFolder:
    """A folder that keeps the objects of a server. Use it as a context, or close it.

    It is private to its owner, and made if it does not exist. Only one process may have it open. `repairs`
    says what was dropped.
    """

    def __init__(
        self, path: Path, *, repair: bool = False, fresh: bool = False, clock: Clock | None = None
    ) -> None:
        """Open the folder and read its log.

        With `repair`, a damaged log is cut before its first damaged record; without it, that is refused. With
        `fresh`, what an earlier server kept there is removed first.

        Raises:
            DataFault: The folder cannot be used, is used by another process, or holds a damaged log.
        """
        self.path = path
        self._clock = clock or SystemClock()
        self.repairs: list[Repair] = []
        self._journal: FileJournal | None = None
        self._compactor: Compactor | None = None
        self._found: Found | None = None
        self._newest_lost = 0
        try:
            _make(path)
            _require_ours(path)
            self._lock = FolderLock(path)
        except OSError as error:
            raise _unusable(path, error) from None
        try:
            if fresh:
                self._forget()
            self._read(repair=repair)
        except OSError as error:
            self._lock.close()
            raise _unusable(path, error) from None
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> "DataFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left, and let another process have the folder."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._compactor is not None:  # after the journal, which may begin a segment
            self._compactor.close()
            self._compactor = None
        self._lock.close()

    # --- keys ---

    def value(self, name: str, make: Callable[[], str]) -> str:
        """What is kept under a name; made at the first call. Raises DataFault if it cannot be kept."""
        if name not in self._keys.values:
            self.keep_value(name, make())
        return self._keys.values[name]

    def keep_value(self, name: str, value: str) -> None:
        """Keep another value under a name. Raises DataFault if it cannot be kept."""
        if self._keys.values.get(name) == value:
            return
        values = {**self._keys.values, name: value}
        try:
            replace_file(self.path / KEYS, msgspec.json.encode(_Keys(self._keys.store, values)))
        except OSError as error:
            raise _unusable(self.path, error) from None
        self._keys.values = values

    def kept_value(self, name: str) -> str | None:
        """What is kept under a name; None if nothing is."""
        return self._keys.values.get(name)

    def signing_key(self) -> bytes:
        """The key that signs tokens of service accounts."""
        return base64.b64decode(self.value("signing-key", self._new_key))

    def _new_key(self) -> str:
        made = b"".join(self._clock.uuid().bytes for _ in range(_KEY_BYTES // 16))
        return base64.b64encode(made).decode()

    # --- the log ---

    @property
    def found(self) -> Found:
        """What the log holds.

        Raises:
            ValueError: A server writes the log already.
        """
        if self._found is None:
            raise ValueError(f"a server already uses the data folder {self.path}")
        return self._found

    def begin(self, log: Log) -> FileJournal:
        """Write every further change of `log`, which has been filled with `found`. Raises DataFault."""
        found, self._found = self.found, None
        try:
            writer = segments.SegmentWriter(self.path, self._keys.store, found.tail, log.version)
            if self.repairs:
                # Versions that were dropped are never given out again, and no watch resumes among them.
                version = max(log.version, self._newest_lost, self._microseconds()) + 1
                writer.append([Record(version, log.version, "", "", "", "")])
                log.begin_anew(version)
        except OSError as error:
            raise _unusable(self.path, error) from None
        self._journal = FileJournal(log, writer)
        self._compactor = Compactor(self.path, lambda: log.stored, lambda: self._clock.now().timestamp())
        writer.on_new_segment = self._compactor.look
        self._compactor.look(writer.number)
        log.keep_in(self._journal)
        return self._journal

    def _microseconds(self) -> int:
        return int(self._clock.now().timestamp() * 1_000_000)

    def _read(self, *, repair: bool) -> None:
        remove_unfinished(self.path)
        kept = _read_keys(self.path)
        found = self._load(repair=repair)
        if kept is None:
            kept = _Keys(found.store or str(self._clock.uuid()))
            replace_file(self.path / KEYS, msgspec.json.encode(kept))
        elif found.store and kept.store != found.store:
            raise DataFault(
                f"the log in {self.path} is of another data folder", "restore the folder as a whole"
            )
        if found.tail is None and kept.values and not self.repairs:
            first = LogFile(segment_path(self.path, 1), 1, base=False)
            if not repair:
                raise Damage(first, 0, "it is missing")
            self.repairs.append(Repair(Lost(0, 0, 0), first.path, 0))
        self._found, self._keys = found, kept

    def _forget(self) -> None:
        files = log_files(self.path)
        if not files and not (self.path / KEYS).exists():
            return
        for file in reversed(files):
            file.path.unlink()
        for damaged in self.path.glob(f"*{_DAMAGED}"):
            damaged.unlink()
        replace_file(self.path / KEYS, msgspec.json.encode(_Keys(str(self._clock.uuid()))))

    def _load(self, *, repair: bool) -> Found:
        while True:
            try:
                return load(self.path)
            except Damage as damage:
                if not repair:
                    raise
                self._repair(damage)

    def _repair(self, damage: Damage) -> None:
        base, behind, superseded = current(log_files(self.path))
        if damage.file == base and any(one.base or one.number == 1 for one in superseded):
            _set_aside(damage.file)  # what it was made of is still there
            self.repairs.append(Repair(Lost(0, 0, 0), damage.file.path, damage.offset))
            return
        later = [one for one in behind if one.number > damage.file.number]
        lost, newest = count([(damage.file, damage.offset), *((one, 0) for one in later)])
        self._newest_lost = max(self._newest_lost, newest)
        for one in reversed(later):
            _set_aside(one)
        if not damage.offset:
            _set_aside(damage.file)
        elif damage.file.base:
            _cut_base(damage.file, damage.offset)
        else:
            shutil.copy2(damage.file.path, f"{damage.file.path}{_DAMAGED}")
            _cut(damage.file.path, damage.offset)
        self.repairs.append(Repair(lost, damage.file.path, damage.offset))


def _make(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise DataFault(f"{path} is a file", "name a folder")
    if not path.exists():
        path.mkdir(mode=0o700, parents=True)
        sync_folder(path.parent)


def _require_ours(path: Path) -> None:
    """Leave a folder of something else as it is."""
    if (path / KEYS).exists() or log_files(path):
        return
    others = sorted(entry.name for entry in path.iterdir() if entry.name not in _HARMLESS)
    if others:
        raise DataFault(f"{path} holds {others[0]} and no log of a server", "choose an empty folder")


def _read_keys(path: Path) -> _Keys | None:
    try:
        return msgspec.json.decode((path / KEYS).read_bytes(), type=_Keys)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataFault(
            f"{path / KEYS} cannot be read ({error})", "restore it from a copy of the folder"
        ) from None


def _unusable(path: Path, error: OSError) -> DataFault:
    place = f"{error.filename}: " if error.filename not in (None, str(path)) else ""
    return DataFault(
        f"cannot use the data folder {path}: {place}{error.strerror or error}",
        "choose a folder that you may write to, on a disk with room",
    )


def _set_aside(file: LogFile) -> None:
    file.path.replace(f"{file.path}{_DAMAGED}")
    sync_folder(file.path.parent)


def _cut(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
        sync(descriptor)
    finally:
        os.close(descriptor)


def _cut_base(base: LogFile, size: int) -> None:
    """Keep the records before `size`, with an end and an empty segment after it."""
    data = base.path.read_bytes()
    with base.path.open("rb") as file:
        head = head_of(base, file)
    assert head is not None
    shutil.copy2(base.path, f"{base.path}{_DAMAGED}")
    end = encode_record(Record(head.after, head.after, "", "", "", ""), 0)
    replace_file(
        segment_path(base.path.parent, base.number + 1),
        encode_file_head(FileHead(head.store, base.number + 1, head.after)),
    )
    replace_file(base.path, data[:size] + end)
