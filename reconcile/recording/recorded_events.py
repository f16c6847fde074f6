"""What a recording consists of: events in the order in which they happened.

Each is one msgpack array that begins with its tag. `at` is in microseconds of the event loop's clock since
the recording began. `run` numbers the runs of a recording. A cluster is named as in `Manager(clusters=)`, and
a resource as `resource_text` writes it.
"""

from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from informers import APIResource
from reconcile.runs.run_request import CauseVerb

FORMAT = 3
"""The version of the format that is written."""
READABLE = (2, 3)
"""The versions that can be read: version 2 has no buckets, and nothing else differs."""
_LONGEST_RESOURCE = 1_000
"""Characters of a resource as text: a group has 253 at most, and the other parts 63 each."""


class _Event(msgspec.Struct, array_like=True):
    pass


class Header(_Event, tag=0):
    """The first event of each file.

    `recording` names a run of the manager, and `part` counts its files from 0 on; `began` is the wall time of
    the recording's begin, in ISO 8601. `options` are those that replay needs.
    """

    format: int
    recording: str
    part: int
    began: str
    version: str
    options: dict[str, Any]


class RecordedCause(msgspec.Struct, array_like=True):
    """A `Cause`, with its resource as text; that, namespace and name are empty without one."""

    verb: CauseVerb
    resource: str
    namespace: str
    name: str
    version: int
    note: str
    echo: bool
    since: int
    paths: list[str]
    manager: str


class Began(_Event, tag=1):
    """A run begins, for these causes."""

    at: int
    run: int
    cluster: str
    controller: str
    namespace: str
    name: str
    attempt: int
    epoch: int
    causes: list[RecordedCause]


class Sent(_Event, tag=2):
    """A run sends its request `number`, from 0 on."""

    at: int
    run: int
    number: int
    cluster: str
    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: bytes | None


class Answered(_Event, tag=3):
    """Request `number` of a run was answered, or failed with an `error`: the name of its class."""

    at: int
    run: int
    number: int
    status: int
    headers: dict[str, str]
    body: bytes
    error: str = ""
    message: str = ""


class Changed(_Event, tag=4):
    """A cache changes, in the part of it that follows the namespace `part`.

    `op` is put, remove, stage (objects), unstage (a name), reach, commit (a version), clear or drop.

    Where only a share is followed, also leave (an object, in a state that is not followed), left (a name, of
    an object that a list has and that is not followed), merge (objects that were read apart from the list)
    and lose (a name: it is not followed any more, or a list at `version` did not have it).
    """

    at: int
    cluster: str
    resource: str
    part: str
    op: str
    version: int = 0
    objects: list[bytes] = msgspec.field(default_factory=list)
    namespace: str = ""
    name: str = ""


class Woke(_Event, tag=5):
    """A run has waited for a cache, or for blocking code, and goes on.

    Or, with a `look` from 0 on: with that look into a cache it saw what had changed since its last event.
    """

    at: int
    run: int
    look: int = -1


class Ended(_Event, tag=6):
    """A run ended; `result` is that of `RunResult.name`, or `cancelled`.

    `error` names the class of its error. `chance` is what the run took from the clock, in order: each is
    `[now | random | uuid, value]`.
    """

    at: int
    run: int
    reconcile_id: str
    result: str
    stale: bool
    requeue_after: float | None
    priority: int | None
    error: str
    message: str
    chance: list[tuple[str, str | float]]


class Noted(_Event, tag=7):
    """Something that concerns all runs, such as the beginning of leadership."""

    at: int
    text: str


class Stored(_Event, tag=8):
    """Objects of a cache as a file of the recording begins: `[JSON, marks of applies, notes of applies]`."""

    at: int
    cluster: str
    resource: str
    part: str
    version: int
    objects: list[tuple[bytes, bytes, bytes]]


BucketOp: TypeAlias = Literal["follow", "hold", "hold unclean", "close", "drop", "forget"]


class Buckets(_Event, tag=9):
    """What a replica has of the objects changes; a later file begins with what there is.

    `op` is follow (`subject`: the resource whose cache follows these buckets and no others), hold (in these
    `epochs`), hold unclean (what the former holder wrote last is unknown), close (no more runs begin), drop
    (runs there are cancelled) or forget (so are those of the controller `subject`, which also forgets what it
    remembers of the keys there).
    """

    at: int
    op: BucketOp
    subject: str
    buckets: list[int]
    epochs: list[int]


TimedEvent: TypeAlias = Began | Sent | Answered | Changed | Woke | Ended | Noted | Stored | Buckets
Event: TypeAlias = Header | TimedEvent


def resource_text(resource: APIResource) -> str:
    """A resource as text: `apps/v1/Deployment/deployments`, with a `*` at the end without namespaces."""
    return "/".join((resource.group, resource.version, resource.kind, resource.plural)) + (
        "" if resource.namespaced else "*"
    )


@lru_cache(1_000)
def resource_of(text: str) -> APIResource:
    """The resource of a text. Raises ValueError."""
    if len(text) > _LONGEST_RESOURCE:  # a thousand are remembered
        raise ValueError(f"a resource of {len(text)} characters")
    parts = text.removesuffix("*").split("/")
    if len(parts) != 4 or not all(parts[1:]):
        raise ValueError(f"{text!r} names no resource")
    group, version, kind, plural = parts
    return APIResource(group, version, kind, plural, namespaced=not text.endswith("*"))
