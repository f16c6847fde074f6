"""What an informer does now, as a value."""

import datetime
from typing import Literal

from attrs import frozen

InformerState = Literal["listing", "watching", "resting", "gone", "stopped"]


@frozen
class InformerStatus:
    """What an informer does now.

    `state`: listing, watching, resting (after a failure, or between two watches), gone (the server no longer
    serves the resource) or stopped. `namespace`: empty if all are followed. `synced`: the first list is in
    the store and the handlers have it. `bytes`: the memory of the bodies of all `objects`. `version`: the one
    that the store has reached. `last_event`: the wall time of the last change. `restarts`: connections after
    the first; `relists`: lists after the first; `failures`: broken requests and streams. `error`: the last
    failure, until the server answers as it should. `lag`: seconds since the server last sent anything, a
    bookmark included; None before that and when stopped. `backlog`: changes that the slowest handler has yet
    to handle. `skipped`: states of objects that could not be read. `bookmarked`: the server sends bookmarks,
    so it is not silent for long; of a kind without changes, the first one may take its time. `compressing`:
    bodies are compressed, as they arrive or in the background.
    """

    resource: str
    namespace: str
    state: InformerState
    synced: bool
    objects: int
    bytes: int
    version: int
    last_event: datetime.datetime | None
    restarts: int
    relists: int
    failures: int
    error: str
    lag: float | None
    backlog: int
    skipped: int = 0
    bookmarked: bool = False
    compressing: bool = False
