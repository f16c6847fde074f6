"""What a controller works on, why, and what comes of it."""

from typing import Literal, NamedTuple

from attrs import frozen

from informers import Key, Resource


class Request(NamedTuple):
    """The key of the object to reconcile: all that travels through the queue."""

    namespace: str
    name: str

    @property
    def key(self) -> Key:
        """The same as a key of a store."""
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        return str(self.key)


@frozen
class Cause:
    """Why a key runs: what happened to which object, at which version."""

    verb: Literal["added", "updated", "deleted", "retried", "scheduled", "triggered"]
    resource: Resource | None = None
    key: Key | None = None
    version: int = 0

    def __str__(self) -> str:
        if self.resource is None:
            return self.verb
        return f"{self.resource} {self.key} {self.verb} at {self.version}"


@frozen
class Result:
    """What a reconcile wants next: nothing, a run `after` so many seconds, or one `again` at once."""

    after: float | None = None
    again: bool = False

    def __attrs_post_init__(self) -> None:
        if self.after is not None and not self.after > 0:
            raise ValueError(f"Result(after=) is a number of seconds above 0, not {self.after}")
        if self.after is not None and self.again:
            raise ValueError("Result: either after= or again=, not both")


class TerminalError(Exception):
    """Raised by a reconciler: trying again will not help until something changes."""
