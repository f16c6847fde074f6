"""Makes PNG pictures of a browser small: 256 colours are enough for pages of text."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Final

_MAGIC: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}
"""Bytes of a pixel by the kind of colours: with and without transparency."""
_GREY: Final = 24
"""How far apart the parts of a colour may be that counts as a grey."""
_GREYS: Final = 80


def smaller(picture: bytes) -> bytes:
    """The same picture with a palette of 256 frequent colours; others become the nearest of them.

    Raises ValueError for a picture that is not as browsers write them: 8 bits, not interlaced, no palette.
    """
    chunks = dict(_chunks(picture))
    width, height, depth, kind, *_, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or kind not in _CHANNELS or interlaced:
        raise ValueError(f"expected 8 bits, RGB or RGBA and no interlace, got {depth} bits and kind {kind}")
    rows = list(_rows(zlib.decompress(chunks[b"IDAT"]), width, _CHANNELS[kind]))
    counts = Counter(pixel for row in rows for pixel in row)
    palette = _palette(counts)
    places = {colour: place for place, colour in enumerate(palette)}

    @cache
    def place_of(pixel: bytes) -> int:
        return places[
            min(palette, key=lambda other: sum((a - b) ** 2 for a, b in zip(pixel, other, strict=True)))
        ]

    for pixel in counts:
        places.setdefault(pixel, place_of(pixel))
    body = b"".join(b"\0" + bytes(map(places.__getitem__, row)) for row in rows)
    return _MAGIC + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(palette)),
            _chunk(b"IDAT", zlib.compress(body, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _palette(counts: Counter[bytes]) -> list[bytes]:
    """The most frequent greys, and the most frequent colours: small marks are coloured, and must stay so."""
    ranked = [pixel for pixel, _ in counts.most_common()]
    greys = [pixel for pixel in ranked if max(pixel) - min(pixel) < _GREY]
    colours = [pixel for pixel in ranked if max(pixel) - min(pixel) >= _GREY]
    kept = colours[: 256 - min(len(greys), _GREYS)]
    return [*greys[: 256 - len(kept)], *kept]


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks by name; the data of the picture as one."""
    at, data = len(_MAGIC), bytearray()
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        name, content = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        if name == b"IDAT":
            data += content
        else:
            yield name, content
        at += 12 + length
    yield b"IDAT", bytes(data)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _rows(data: bytes, width: int, channels: int) -> Iterator[list[bytes]]:
    """The pixels of each row, as three bytes each."""
    size = width * channels
    above = bytearray(size)
    for start in range(0, len(data), size + 1):
        row = bytearray(data[start + 1 : start + 1 + size])
        _restore(data[start], row, above, channels)
        yield [bytes(row[at : at + 3]) for at in range(0, size, channels)]
        above = row


def _restore(method: int, row: bytearray, above: bytearray, step: int) -> None:
    """Undo the filter of a row: https://www.w3.org/TR/png-3/#9Filters."""
    for at in range(len(row)) if method else ():
        left = row[at - step] if at >= step else 0
        up, corner = above[at], above[at - step] if at >= step else 0
        guess = (0, left, up, (left + up) // 2, _paeth(left, up, corner))[method]
        row[at] = (row[at] + guess) & 255


def _paeth(left: int, up: int, corner: int) -> int:
    straight = left + up - corner
    return min((left, up, corner), key=lambda each: abs(straight - each))
