"""The frames of a recording's file: pieces of one compressed stream, each whole or not there.

A file begins with a line of text, `RECONCILE RECORDING`, the format and the compression. A frame has the
length of its bytes and their CRC-32 (both in 4 bytes, the highest first), and then these: a part of the
compressed stream that can be decompressed once it is there. So whatever a crash cuts off, all frames before
it can be read.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

from attrs import define, field

MAGIC = b"RECONCILE RECORDING "
_HEAD = struct.Struct(">II")
LARGEST_FRAME = 64 << 20
"""Bytes of a frame, as it is stored."""
LARGEST_PIECE = 256 << 20
"""Bytes of a frame, decompressed."""
_SLICE = 2_048
_LEVEL = 1
_ZSTD_LEVEL = 3
"""A tenth smaller than level 1, for 2 microseconds a run."""
_ZSTD_WINDOW_LOG = 22
"""4 MB: states of an object come again and again, between those of others."""


class DamagedFrame(ValueError):
    """What follows in a file is not a frame."""


class _Packer(Protocol):
    def pack(self, piece: bytes) -> bytes: ...


class _ZlibPacker:
    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL)

    def pack(self, piece: bytes) -> bytes:
        return self._packer.compress(piece) + self._packer.flush(zlib.Z_SYNC_FLUSH)


class _ZstdPacker:
    """Raises ImportError without zstandard."""

    def __init__(self) -> None:
        import zstandard

        parameters = zstandard.ZstdCompressionParameters.from_level(_ZSTD_LEVEL, window_log=_ZSTD_WINDOW_LOG)
        self._packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        self._flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK

    def pack(self, piece: bytes) -> bytes:
        return self._packer.compress(piece) + self._packer.flush(self._flush)


@define(eq=False)
class FrameWriter:
    """Makes the frames of one file, in order; zstd where the extra `zstd` is installed, zlib elsewhere."""

    compression: str = field(init=False)
    _packer: _Packer = field(init=False)

    def __attrs_post_init__(self) -> None:
        try:
            self._packer, self.compression = _ZstdPacker(), "zstd"
        except ImportError:
            self._packer, self.compression = _ZlibPacker(), "zlib"

    def first_line(self, version: int) -> bytes:
        return MAGIC + f"{version} {self.compression}\n".encode()

    def frame(self, piece: bytes) -> bytes:
        packed = self._packer.pack(piece)
        return _HEAD.pack(len(packed), zlib.crc32(packed)) + packed


def read_first_line(file: BinaryIO) -> tuple[int, str]:
    """The format and the compression of a file. Raises DamagedFrame for any other file."""
    line = file.readline(64)
    words = line.removeprefix(MAGIC).split()
    if not line.startswith(MAGIC) or not line.endswith(b"\n") or len(words) != 2 or not words[0].isdigit():
        raise DamagedFrame("it does not begin as a recording does")
    return int(words[0]), words[1].decode(errors="replace")


def read_pieces(file: BinaryIO, compression: str) -> Iterator[bytes]:
    """The pieces of a file after its first line.

    Ends where the file ends, or where it was cut off in a frame. Raises DamagedFrame for any other damage,
    ValueError for an unknown compression and ImportError where zstd is not installed.
    """
    unpack = _unpacker(compression)
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        size, crc = _HEAD.unpack(head)
        if size > LARGEST_FRAME:
            raise DamagedFrame(f"a frame of {size} bytes")
        packed = file.read(size)
        if len(packed) < size:
            return
        if zlib.crc32(packed) != crc:
            raise DamagedFrame("the checksum of a frame is wrong")
        yield unpack(packed)


def _unpacker(compression: str) -> Callable[[bytes], bytes]:
    if compression == "zlib":
        return _unzlib()
    if compression == "zstd":
        return _unzstd()
    raise ValueError(f"compressed by {compression[:20]!r}, which this version does not know")


def _unzlib() -> Callable[[bytes], bytes]:
    unpacker = zlib.decompressobj()

    def unpack(packed: bytes) -> bytes:
        try:
            piece = unpacker.decompress(packed, LARGEST_PIECE)
        except zlib.error as error:
            raise DamagedFrame(f"a frame cannot be decompressed: {error}") from None
        if unpacker.unconsumed_tail:
            raise DamagedFrame(f"a frame of more than {LARGEST_PIECE} bytes")
        return piece

    return unpack


def _unzstd() -> Callable[[bytes], bytes]:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << _ZSTD_WINDOW_LOG).decompressobj()

    def unpack(packed: bytes) -> bytes:
        piece = bytearray()
        # In slices, since zstd makes up to 128 KB of 4 bytes, and its binding takes no bound.
        for start in range(0, len(packed), _SLICE):
            try:
                piece += unpacker.decompress(packed[start : start + _SLICE])
            except zstandard.ZstdError as error:
                raise DamagedFrame(f"a frame cannot be decompressed: {error}") from None
            if len(piece) > LARGEST_PIECE:
                raise DamagedFrame(f"a frame of more than {LARGEST_PIECE} bytes")
        return bytes(piece)

    return unpack
