"""One write of a client as its observers get it: first what is sent, then how that ended."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from informers import APIResource, Key, Snapshot


@frozen(eq=False)
class Sent:
    """A request for a change, on its way to the server.

    `base` is the object as the cache has it at that moment. `dry`: the server carries nothing out.
    """

    method: str
    resource: APIResource
    key: Key
    subresource: str
    body: Any
    base: Snapshot | None = None
    dry: bool = False

    @property
    def guard(self) -> Mapping[str, Any]:
        """For which uid and resourceVersion the request is meant, as far as its body names them."""
        body = self.body if isinstance(self.body, Mapping) else {}
        return body.get("preconditions" if self.method == "DELETE" else "metadata") or {}


@frozen(eq=False)
class EndedWrite:
    """A write that has ended.

    `written` is the object that the server answered; None where it answered none. `fresh`: the object has
    fields of this writer alone, so this write created it.
    """

    sent: Sent
    written: Snapshot | None = None
    fresh: bool = False

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.sent.method

    @property
    def resource(self) -> APIResource:
        """What kind of object was written."""
        return self.sent.resource

    @property
    def key(self) -> Key:
        """Which object was written; its name may be one that the server chose."""
        return self.sent.key if self.sent.key.name or self.written is None else self.written.key

    @property
    def subresource(self) -> str:
        """Which part of the object; empty for all of it."""
        return self.sent.subresource

    @property
    def body(self) -> Any:
        """What was sent."""
        return self.sent.body

    @property
    def base(self) -> Snapshot | None:
        """The object as the cache had it when the write was sent."""
        return self.sent.base

    @property
    def dry(self) -> bool:
        """Whether the server carried nothing out."""
        return self.sent.dry


@frozen(eq=False)
class Answered(EndedWrite):
    """A write that the server accepted; `scale` is the Scale that it answered to a write of one."""

    scale: Snapshot | None = None


@frozen(eq=False)
class Failed:
    """A write that ended with an error: of the server, of the way there, or a cancellation.

    Not to be kept: the error has the frames of the run in its traceback.
    """

    sent: Sent
    error: BaseException


class WriteObserver:
    """Gets each write of a client; all observers get one step before any gets the next."""

    def sent(self, sent: Sent) -> None:
        """The write is about to go out. An error that this raises keeps it back: it has no end then."""

    def answered(self, answered: Answered) -> None:
        """The server accepted the write."""

    def failed(self, failed: Failed) -> None:
        """The write ended with an error."""
