"""The pictures of the status page in the documentation: `make pictures` takes them anew."""

import os
import re
import struct
import zlib
from pathlib import Path

import pytest

from tests.helpers.browsers import Tab
from tests.helpers.small_pictures import smaller
from tests.helpers.status_pages import serving
from tests.status.page_scenes import sample_manager

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = DOCS / "pictures"
MOST_BYTES = 600_000
SHOP = "#/object?controller=sites&key=default%2Fshop"
VIEWS = {
    "controllers": ("", "Look at these first", 1200, 640, False),
    "objects": ("#/objects", "485 of 485 objects", 1200, 640, False),
    "object": (SHOP, "Why not now?", 1200, 1130, False),
    "clusters": ("#/clusters", "deployments.apps", 1200, 680, False),
    "object-dark": (SHOP, "Why not now?", 1200, 720, True),
    "objects-phone": ("#/objects", "485 of 485 objects", 360, 640, False),
}


@pytest.mark.parametrize("name", VIEWS)
async def test_a_picture_of_each_view_can_be_taken(tab: Tab, name: str) -> None:
    address, words, width, height, dark = VIEWS[name]
    async with serving(sample_manager()) as manager:
        await tab.shaped(width, height, dark=dark, phone=width < 500)
        await tab.open(manager.url + address)
        await tab.until_shown(words)
        await tab.until_shown("Live")
        picture = await tab.picture()
    assert size_of(picture) == (width, height)
    if os.environ.get("PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / f"status-{name}.png").write_bytes(smaller(picture))


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


@pytest.mark.parametrize("name", VIEWS)
def test_the_documentation_has_each_picture_and_says_what_is_in_it(name: str) -> None:
    _, _, width, height, _ = VIEWS[name]
    assert size_of((PICTURES / f"status-{name}.png").read_bytes()) == (width, height)
    page = (DOCS / "how-to" / "watch-an-operator.md").read_text()
    found = re.search(rf"!\[([^\]]+)\]\(\.\./pictures/status-{name}\.png\)", page)
    assert found is not None
    assert len(found[1]) > 20


def test_the_pictures_are_small_and_none_is_left_over() -> None:
    files = list(PICTURES.iterdir())
    assert {file.name for file in files} == {f"status-{name}.png" for name in VIEWS}
    assert sum(file.stat().st_size for file in files) < MOST_BYTES


PIXELS = [[b"\xff\x00\x00", b"\x00\xff\x00"], [b"\x00\x00\xff", b"\xff\x00\x00"]]


@pytest.mark.parametrize("method", range(5), ids=["none", "left", "up", "average", "paeth"])
def test_a_smaller_picture_has_the_same_pixels(method: int) -> None:
    """The picture is filtered here by the definition of each filter, and read there."""
    small = smaller(written(PIXELS, method))
    palette, data = chunk_of(small, b"PLTE"), zlib.decompress(chunk_of(small, b"IDAT"))
    rows = [data[1:3], data[4:6]]
    assert [[palette[3 * at : 3 * at + 3] for at in row] for row in rows] == PIXELS


def written(pixels: list[list[bytes]], method: int) -> bytes:
    above, data = bytes(6), b""
    for row in map(b"".join, pixels):
        data += bytes([method]) + bytes((row[at] - guess(method, row, above, at)) & 255 for at in range(6))
        above = row
    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + bytes(4) for name, content in chunks
    )


def guess(method: int, row: bytes, above: bytes, at: int) -> int:
    left, corner = (row[at - 3], above[at - 3]) if at >= 3 else (0, 0)
    up = above[at]
    straight = left + up - corner
    nearest = sorted((abs(straight - each), place, each) for place, each in enumerate((left, up, corner)))
    return (0, left, up, (left + up) // 2, nearest[0][2])[method]


def chunk_of(picture: bytes, name: bytes) -> bytes:
    at = picture.index(name)
    (length,) = struct.unpack(">I", picture[at - 4 : at])
    return picture[at + 4 : at + 4 + length]
