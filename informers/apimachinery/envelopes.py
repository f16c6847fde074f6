"""What a server puts around objects: the pages of a list, the lines of a watch."""

from typing import Final

import msgspec

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation, `true`, of the bookmark that ends the first state of a watch."""


class ListMetadata(msgspec.Struct, rename="camel"):
    """`version` is that of the whole list; `continue_` is the token of the next page, empty on the last."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """A list, or one page of it, with its items still as text.

    Without metadata it is not one: another server's `{}` must not be read as an empty list.
    """

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchLine(msgspec.Struct, gc=False):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and its object as text."""

    type: str
    object: msgspec.Raw


decode_list_page = msgspec.json.Decoder(ListPage).decode
decode_watch_line = msgspec.json.Decoder(WatchLine).decode
