"""`compression.zstd` of Python 3.14, or before that what a cache uses of it, on the library zstandard."""

from types import SimpleNamespace
from typing import Any

import zstandard


class ZstdDict:
    def __init__(self, content: bytes, /, *, is_raw: bool = False) -> None:
        assert is_raw  # else a content that is no trained dictionary is refused
        self.known = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)

    @property
    def as_digested_dict(self) -> "ZstdDict":
        return self


class ZstdCompressor:
    FLUSH_FRAME = 2

    def __init__(self, level: int, zstd_dict: ZstdDict) -> None:
        self._packer = zstandard.ZstdCompressor(level=level, dict_data=zstd_dict.known)

    def compress(self, data: bytes, mode: int) -> bytes:
        assert mode == self.FLUSH_FRAME  # else it may keep the end to itself
        return self._packer.compress(data)


def decompress(data: bytes, zstd_dict: ZstdDict) -> bytes:
    return zstandard.ZstdDecompressor(dict_data=zstd_dict.known).decompress(data)


def standard_zstd() -> Any:
    try:
        import compression.zstd
    except ImportError:
        return SimpleNamespace(ZstdDict=ZstdDict, ZstdCompressor=ZstdCompressor, decompress=decompress)
    return compression.zstd
