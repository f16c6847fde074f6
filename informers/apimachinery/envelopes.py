"""What a server puts around objects: pages of lists, lines of watches."""

from typing import Final

import msgspec

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation, `true`, of the bookmark that ends the initial events of a watch."""


class ListMetadata(msgspec.Struct, rename="camel"):
    """`resource_version` is that of the whole list; `continue_` the token of the next page, if any."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """A list, or a page of one, with its items as text. Metadata is required: `{}` is not an empty list."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchLine(msgspec.Struct, gc=False):
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and its object as text."""

    type: str
    object: msgspec.Raw


decode_list_page = msgspec.json.Decoder(ListPage).decode
decode_watch_line = msgspec.json.Decoder(WatchLine).decode
