"""One write of a client as its observers get it: first the request, then its end."""

import asyncio
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from informers import APIResource, Key, Snapshot


def _loop_time() -> float:
    """The event loop's time; 0 outside of a loop of asyncio, where no run is."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


@frozen(eq=False)
class Sent:
    """A request about to be sent; `base` is the cached object, `dry`: the server carries nothing out.

    `started` is the event loop's time.
    """

    method: str
    resource: APIResource
    key: Key
    subresource: str
    body: Any
    base: Snapshot | None = None
    dry: bool = False
    started: float = field(factory=_loop_time, init=False)

    @property
    def guard(self) -> Mapping[str, Any]:
        """The uid and resourceVersion that the request is meant for, as far as its body names them."""
        body = self.body if isinstance(self.body, Mapping) else {}
        return body.get("preconditions" if self.method == "DELETE" else "metadata") or {}


@frozen(eq=False)
class EndedWrite:
    """A write that has `ended` (event loop's time), with the object `written`; `fresh`: it created it."""

    sent: Sent
    written: Snapshot | None = None
    fresh: bool = False
    ended: float = field(factory=_loop_time, init=False)

    @property
    def method(self) -> str:
        return self.sent.method

    @property
    def resource(self) -> APIResource:
        return self.sent.resource

    @property
    def key(self) -> Key:
        """The key of the written object; its name may be one that the server chose."""
        return self.sent.key if self.sent.key.name or self.written is None else self.written.key

    @property
    def subresource(self) -> str:
        return self.sent.subresource

    @property
    def body(self) -> Any:
        return self.sent.body

    @property
    def base(self) -> Snapshot | None:
        return self.sent.base

    @property
    def dry(self) -> bool:
        return self.sent.dry


@frozen(eq=False)
class Answered(EndedWrite):
    """A write that the server accepted; `scale` is the Scale in the answer to a write of one."""

    scale: Snapshot | None = None


@frozen(eq=False)
class Failed:
    """A write that ended with an error or a cancellation; not to be kept: the error has the run's frames."""

    sent: Sent
    error: BaseException


class WriteObserver:
    """Gets each write of a client; all observers get one step before any gets the next."""

    def sent(self, sent: Sent) -> None:
        """The write is about to be sent. An error raised here prevents it; then it has no end."""

    def answered(self, answered: Answered) -> None:
        """The server accepted the write."""

    def failed(self, failed: Failed) -> None:
        """The write ended with an error."""
