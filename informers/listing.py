"""Parses a list while it arrives, so that it is never in memory as a whole."""

import re
from collections.abc import Callable, Iterator

import msgspec

from informers.api_errors import MalformedAnswer
from informers.apimachinery.envelopes import ListMetadata
from informers.line_splitter import LONGEST
from informers.scanning import elements, members
from informers.snapshot import Snapshot

Read = Callable[[bytes], Snapshot | None]
"""Reads an object; None if it is to be left out. Raises msgspec.DecodeError for text that is not JSON."""

_ATTEMPTS = 64
"""Separators within one item after which the body is read as one piece."""

_start_of_items = re.compile(rb'"items"\s*:\s*\[\s*(?=\{)')
_first_name = re.compile(rb'\{\s*"[^"\\]{1,100}"\s*:')


class _Unended:
    """The item does not end where it was assumed to."""


class _Rest(msgspec.Struct):
    """What is left of a list without its items: its metadata may come before or after them."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[msgspec.Raw] | None = None


_UNENDED = _Unended()
_rest = msgspec.json.Decoder(_Rest)


class ListParser:
    """Takes the chunks of a list's body and yields its items.

    All items of a list begin alike (`{"apiVersion":`). Where that follows a `},`, an item may have ended; it
    has if the text before can be read as an object. What cannot be told apart is read at the end as one
    piece, so the server's way to write JSON changes only memory use. `version` and `token` are known after
    `finish`.
    """

    def __init__(self, read: Read) -> None:
        self.version = ""
        self.token = ""
        self._read = read
        self._head = b""
        self._buffer = bytearray()
        self._next_item: re.Pattern[bytes] | None = None
        self._looked = 0
        self._attempts = 0

    def feed(self, chunk: bytes) -> Iterator[Snapshot]:
        """The items that this chunk completes. Raises MalformedAnswer for an item that does not end."""
        self._buffer += chunk
        next_item = self._next_item or self._find_items()
        if next_item is not None:
            yield from self._ended(next_item)
        if len(self._buffer) > LONGEST:
            raise MalformedAnswer(f"an item of a list of more than {LONGEST} bytes")

    def finish(self) -> Iterator[Snapshot]:
        """The remaining items of a complete body. Raises msgspec.DecodeError if it is incomplete."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        if self._head:
            head = _whole(self._head.rstrip().rstrip(b",") + b"}")
            rest = b'{"items":[' + rest
        tail = _whole(rest)
        for item in tail.items or ():
            snapshot = self._read(bytes(item))
            if snapshot is not None:
                yield snapshot
        told = tail.metadata if not self._head or tail.metadata.resource_version else head.metadata
        self.version, self.token = told.resource_version, told.continue_

    def _ended(self, next_item: re.Pattern[bytes]) -> Iterator[Snapshot]:
        start = 0
        while self._attempts < _ATTEMPTS:
            found = next_item.search(self._buffer, max(start, self._looked))
            if found is None:
                break
            self._looked = found.start() + 1
            item = self._try(start, found.start() + 1)
            if not isinstance(item, _Unended):
                start = found.end()
                if item is not None:
                    yield item
        del self._buffer[:start]
        self._look_on()

    def _look_on(self) -> None:
        # An item's end may lie across two chunks: its brace, the comma and the name after it.
        self._looked = max(0, len(self._buffer) - 256)

    def _find_items(self) -> re.Pattern[bytes] | None:
        start = _start_of_items.search(self._buffer, self._looked)
        if start is None:
            self._look_on()
            return None
        name = _first_name.match(self._buffer, start.end())
        if name is None:
            return None
        self._looked = 0
        self._head = bytes(self._buffer[: start.start()])
        self._next_item = re.compile(rb"\}\s*,\s*(?=" + re.escape(name.group()) + rb")")
        del self._buffer[: start.end()]
        return self._next_item

    def _try(self, start: int, end: int) -> Snapshot | _Unended | None:
        with memoryview(self._buffer) as view:
            text = bytes(view[start:end])
        try:
            item = self._read(text)
        except msgspec.DecodeError:
            self._attempts += 1
            return _UNENDED
        self._attempts = 0
        return item


def _whole(body: bytes) -> _Rest:
    """A list, or the rest of one, whose items may be nested to any depth."""
    try:
        return _rest.decode(body)
    except RecursionError:
        parts = members(body)
        metadata = msgspec.json.decode(parts.get("metadata", b"{}"), type=ListMetadata)
        return _Rest(metadata, [msgspec.Raw(item) for item in elements(parts.get("items", b"[]"))])
