"""Reads a line of a watch as an input of `reflector_state`."""

from typing import Any

import msgspec

from informers.api_errors import MalformedAnswer, error_from_status
from informers.apimachinery.envelopes import INITIAL_EVENTS_END, WatchLine, decode_watch_line
from informers.listing import Read
from informers.reflector_state import BookmarkRead, EventRead
from informers.scanning import members


class _BookmarkMetadata(msgspec.Struct):
    resourceVersion: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMetadata


_bookmark = msgspec.json.Decoder(_Bookmark)


def watch_input(line: bytes, read: Read, request: str) -> EventRead | BookmarkRead | None:
    """The input of one line; None for an unknown type of event, or an object that is left out.

    Raises the error of an ERROR event, as one of `request`.
    """
    event = _decoded_event(line)
    match event.type:
        case "ADDED" | "MODIFIED" | "DELETED" as kind:
            snapshot = read(bytes(event.object))
            return None if snapshot is None else EventRead(kind, snapshot)
        case "BOOKMARK":
            metadata = _bookmark.decode(event.object).metadata
            whole = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
            return BookmarkRead(version_of(metadata.resourceVersion), whole)
        case "ERROR":
            raise error_from_status(msgspec.json.decode(event.object, type=dict[str, Any]), request)
    return None


def version_of(text: str) -> int:
    """The version of a list or bookmark. Raises MalformedAnswer for text that is not a number."""
    if not text.isdecimal():
        raise MalformedAnswer(f"resourceVersion {text!r} is not a number: this server cannot be followed")
    return int(text)


def _decoded_event(line: bytes) -> WatchLine:
    try:
        return decode_watch_line(line)
    except RecursionError:
        parts = members(line)
        kind = msgspec.json.decode(parts.get("type", b'""'), type=str)
        return WatchLine(kind, msgspec.Raw(parts.get("object", b"{}")))
