"""The codecs of stored bodies. The first body is the dictionary, as objects of one resource are alike.

For costs and savings see docs/explanation/cache.md.
"""

import threading
import zlib
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attrs import define, field

if TYPE_CHECKING:
    import zstandard


def codec() -> "ZstdCodec | StandardZstdCodec | ZlibCodec":
    """A codec for one store: of the extra `zstd`, else the standard library's zstd (3.14), else zlib."""
    with suppress(ImportError):
        return ZstdCodec()
    with suppress(ImportError):
        return StandardZstdCodec()
    return ZlibCodec()


@define(eq=False)
class ZlibCodec:
    _sample: bytes = field(default=b"", init=False)

    def pack(self, body: bytes) -> bytes:
        if not self._sample:
            self._sample = body
        packer = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY, self._sample)
        return packer.compress(body) + packer.flush()

    def unpack(self, packed: bytes) -> bytes:
        return zlib.decompressobj(-15, zdict=self._sample).decompress(packed)


class ZstdCodec:
    """Three times as fast as zlib, and smaller. Raises ImportError without zstandard."""

    def __init__(self) -> None:
        import zstandard

        self._zstd = zstandard
        # Its contexts serve one thread at a time, and bodies may be read in any.
        self._lock = threading.Lock()
        self._packer: zstandard.ZstdCompressor | None = None
        self._unpacker = zstandard.ZstdDecompressor()

    def pack(self, body: bytes) -> bytes:
        with self._lock:
            packer = self._packer or self._prepared(body)
            # A copy: what zstd gives is cut from a piece of memory as large as the body was.
            return bytes(memoryview(packer.compress(body)))

    def unpack(self, packed: bytes) -> bytes:
        with self._lock:
            return self._unpacker.decompress(packed)

    def _prepared(self, sample: bytes) -> "zstandard.ZstdCompressor":
        known = self._zstd.ZstdCompressionDict(sample, dict_type=self._zstd.DICT_TYPE_RAWCONTENT)
        known.precompute_compress(level=1)
        self._packer = self._zstd.ZstdCompressor(dict_data=known)
        self._unpacker = self._zstd.ZstdDecompressor(dict_data=known)
        return self._packer


class StandardZstdCodec:
    """zstd of the standard library: as small, and slower to read, since it makes a context for each body.

    `library` is `compression.zstd`, or a module like it. Raises ImportError before Python 3.14, and
    where Python was built without zstd.
    """

    def __init__(self, library: Any = None) -> None:
        self._zstd = import_module("compression.zstd") if library is None else library
        # A packer serves one thread at a time.
        self._lock = threading.Lock()
        self._known: Any = None
        self._packer: Any = None

    def pack(self, body: bytes) -> bytes:
        with self._lock:
            if self._packer is None:
                self._known = self._zstd.ZstdDict(body, is_raw=True)
                self._packer = self._zstd.ZstdCompressor(level=1, zstd_dict=self._known.as_digested_dict)
            packed: bytes = self._packer.compress(body, self._zstd.ZstdCompressor.FLUSH_FRAME)
            return packed

    def unpack(self, packed: bytes) -> bytes:
        body: bytes = self._zstd.decompress(packed, zstd_dict=self._known)
        return body
