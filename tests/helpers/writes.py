"""Writes of a run that have ended, for tests of what observes them."""

from typing import Any

from informers import APIResource, Key, Snapshot
from reconcile.runs.write_events import EndedWrite, Sent


def ended_write(
    method: str,
    resource: APIResource,
    key: Key,
    subresource: str = "",
    body: Any = None,
    base: Snapshot | None = None,
    written: Snapshot | None = None,
    fresh: bool = False,
    dry: bool = False,
) -> EndedWrite:
    """A write and its answer; without `written` one that failed, or whose answer is not the object."""
    return EndedWrite(Sent(method, resource, key, subresource, body, base, dry), written, fresh)
