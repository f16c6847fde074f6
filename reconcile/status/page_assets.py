"""The files of the status page, as they are in the package: read once, and served by their exact names."""

import hashlib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from attrs import frozen

INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@frozen
class Asset:
    """A file of the page; `tag` is its ETag."""

    body: bytes
    content_type: str
    tag: str


def page_assets() -> Mapping[str, Asset]:
    """All files of the page by name, from a folder or a zipped package."""
    folder = resources.files(__package__) / "page"
    files = [(file, _TYPES.get(_ending(file.name))) for file in folder.iterdir() if file.is_file()]
    return {file.name: _asset(file, content_type) for file, content_type in files if content_type is not None}


def _asset(file: Traversable, content_type: str) -> Asset:
    body = file.read_bytes()
    return Asset(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _ending(name: str) -> str:
    return name[name.rfind(".") :]
