"""The lines of a watch as typed events."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

from informers import MalformedAnswer, error_from_status
from informers.api_errors import parsed
from informers.apimachinery.envelopes import decode_watch_line
from informers.line_splitter import LineSplitter
from reconcile.client.object_reads import version_of
from reconcile.client.sender import json_object
from reconcile.models import Object, decode

O = TypeVar("O", bound=Object)  # noqa: E741


EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_EVENT_TYPES: Mapping[str, EventType] = {
    "ADDED": "ADDED",
    "MODIFIED": "MODIFIED",
    "DELETED": "DELETED",
    "BOOKMARK": "BOOKMARK",
}


@frozen
class WatchEvent(Generic[O]):
    """One line of a watch, and the resourceVersion to go on from; a bookmark has no object."""

    type: EventType
    version: str
    object: O | None = None


async def watch_events(
    model: type[O], chunks: AsyncIterator[bytes], request: str, note: Callable[[bytes], None]
) -> AsyncIterator[WatchEvent[O]]:
    """The events of a watch; `note` gets the JSON of each object. Raises the error of an ERROR line."""
    lines = LineSplitter()
    async for chunk in chunks:
        for raw in lines.feed(chunk):
            line = parsed(decode_watch_line, raw, request)
            body = bytes(line.object)
            if line.type == "ERROR":
                raise error_from_status(parsed(json_object, body, request), request)
            version = parsed(version_of, body, request)
            kind = _EVENT_TYPES.get(line.type)
            if kind is None:
                raise MalformedAnswer(f"{request}: a watch event of unknown type {line.type!r}")
            if kind == "BOOKMARK":
                yield WatchEvent(kind, version)
            else:
                note(body)
                yield WatchEvent(kind, version, decode(model, body))
