"""The operator's interface to a storage system: your client implements it."""

from typing import Literal, Protocol

from attrs import frozen


@frozen
class Operation:
    """A backup or a restore, as the storage system has it."""

    state: Literal["Running", "Succeeded", "Failed"] = "Running"
    message: str = ""


class StorageFailed(Exception):
    """The storage system did not answer, or refused: a timeout, a 503, a backup that is being restored."""


class Storage(Protocol):
    """Each method may raise StorageFailed. The caller names an operation, so that it can be found again."""

    async def find(self, operation: str) -> Operation | None: ...
    async def back_up(self, operation: str, volume: str) -> Operation: ...
    async def restore(self, operation: str, backup: str, volume: str) -> Operation: ...
    async def remove(self, operation: str) -> None:
        """Stop the operation if it is running, and delete the storage system's data about it.

        For a backup this is its content, for a restore only the record: the volume keeps its content.
        An operation that does not exist is not an error.
        """
