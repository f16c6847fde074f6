"""Records of the log as bytes, without any file.

A frame is a head of 20 bytes and a payload. The head has the length and the CRC-32 of the payload, the offset
up to which the file was on disk when the frame was written, and the CRC-32 of the head itself, so that a
damaged length is not taken for a frame that was cut off.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from attrs import frozen

FORMAT: Final = 1
"""The version of the format that this module writes, and the newest that it reads."""

FIRST_LINE: Final = b"reconcile-runtime log %d\n" % FORMAT
_HEAD: Final = struct.Struct("<IIQ")
_CHECK: Final = struct.Struct("<I")
HEAD_BYTES: Final = _HEAD.size + _CHECK.size
# etcd's default limit for one object is 1.5 MiB; keys and the form are beside it.
MAX_PAYLOAD: Final = 4 * 1024 * 1024
# A disk writes a sector whole or not at all, and one that was not written is read as zeros: isTornEntry in
# etcd's wal.
_SECTOR: Final = 512
_TELLING: Final = 16  # zeros in a row, which heads and bodies do not have

Verdict = Literal["torn", "damaged"]


class Form(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which version of which resource encoded a body."""

    group: str
    version: str
    plural: str
    made_from: str = ""
    """Uid and generation of its definition; empty for built-in kinds."""


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One write: an object's new body, or its removal if that is None.

    A record without a resource only moves the version forward, and ends all history before it.
    """

    version: int
    before: int
    """The version of the record before it, so that a missing one is noticed."""
    group: str
    plural: str
    namespace: str
    name: str
    form: Form | None = None
    body: bytes | None = None

    @property
    def place(self) -> tuple[str, str, str, str]:
        """The resource and the object."""
        return self.group, self.plural, self.namespace, self.name


class FileHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first frame of a file."""

    store: str
    """The folder's id, so that a file of another folder is noticed."""
    number: int
    """Of the segment, or of the last segment that this base replaces."""
    after: int
    """The version before its first record; of a base, the newest version that it replaces."""
    base: bool = False


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_record: Final = msgspec.msgpack.Decoder(Record).decode
_decode_head: Final = msgspec.msgpack.Decoder(FileHead).decode


def frame(payload: bytes, synced: int) -> bytes:
    """The payload with its head; `synced` is the length of the file that is on disk for certain."""
    head = _HEAD.pack(len(payload), zlib.crc32(payload), synced)
    return b"".join((head, _CHECK.pack(zlib.crc32(head)), payload))


def encode_record(record: Record, synced: int) -> bytes:
    return frame(_encode(record), synced)


def encode_file_head(head: FileHead) -> bytes:
    """How a file begins: a line of text with the version of the format, and a frame."""
    return FIRST_LINE + frame(_encode(head), 0)


def decode_record(payload: bytes) -> Record:
    """Raises ValueError for a payload that no version of this module wrote."""
    return _decode_record(payload)


def decode_file_head(payload: bytes) -> FileHead:
    """Raises ValueError as `decode_record` does."""
    return _decode_head(payload)


def format_of(line: bytes) -> int | None:
    """The version of the format from the first line of a file; None if it is not of a log."""
    words = line.removesuffix(b"\n").split(b" ")
    if line[-1:] != b"\n" or words[:2] != [b"reconcile-runtime", b"log"] or len(words) != 3:
        return None
    return int(words[2]) if words[2].isdigit() else None


@frozen
class Head:
    length: int
    checksum: int
    synced: int


def read_head(data: bytes) -> Head | None:
    """The head of a frame from its 20 bytes; None if they are damaged."""
    if len(data) != HEAD_BYTES or _CHECK.unpack_from(data, _HEAD.size)[0] != zlib.crc32(data[: _HEAD.size]):
        return None
    head = Head(*_HEAD.unpack_from(data))
    return head if head.length <= MAX_PAYLOAD else None


def is_whole(head: Head, payload: bytes) -> bool:
    return len(payload) == head.length and zlib.crc32(payload) == head.checksum


def judge(rest: bytes, offset: int) -> Verdict:
    """What an unreadable frame is, by the bytes from it, at `offset`, to the end of the file.

    Torn is what a crash leaves: an end that is cut off, or sectors that were never written, with no later
    frame that knows them to have been on disk. Anything else had been answered, and is damaged.
    """
    if any(head.synced > offset for _, head, _ in frames_after(rest)):
        return "damaged"
    head = read_head(rest[:HEAD_BYTES])
    cut_off = len(rest) < HEAD_BYTES if head is None else len(rest) < HEAD_BYTES + head.length
    length = len(rest) if head is None else HEAD_BYTES + head.length
    return "torn" if cut_off or _has_empty_sector(rest[:length], offset) else "damaged"


def _has_empty_sector(data: bytes, offset: int) -> bool:
    """Whether a sector of the file is zeros as far as `data`, which starts at `offset`, has it.

    The few bytes of a sector at either end say nothing.
    """
    first = _SECTOR - offset % _SECTOR
    starts = (0, *range(first, len(data), _SECTOR))
    ends = (*starts[1:], len(data))
    return any(
        not any(data[start:end]) for start, end in zip(starts, ends, strict=True) if end - start >= _TELLING
    )


def frames_after(rest: bytes) -> Iterator[tuple[int, Head, bytes]]:
    """The whole frames that follow an unreadable one at the start of `rest`, with their places in it."""
    head = read_head(rest[:HEAD_BYTES])
    return whole_frames(rest, 1 if head is None else HEAD_BYTES + head.length)


def whole_frames(data: bytes, at: int = 0) -> Iterator[tuple[int, Head, bytes]]:
    """All whole frames from `at` on, with their places; what is between them is passed over."""
    while at + HEAD_BYTES <= len(data):
        head = read_head(data[at : at + HEAD_BYTES])
        payload = data[at + HEAD_BYTES : at + HEAD_BYTES + head.length] if head is not None else b""
        if head is not None and is_whole(head, payload):
            yield at, head, payload
            at += HEAD_BYTES + head.length
        else:
            at += 1
