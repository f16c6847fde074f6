"""The form of an object's life, for those who read one: exports take it from a manager, over the network.

`read_life` checks what comes, so that the rest need not: a manager may be another program, and names and
messages in a life come from objects that anybody wrote.
"""

from typing import Annotated, Any, Final, TypeAlias

import msgspec

VERSION: Final = 1
"""Of the form of a life. A further member does not change it."""

RUNNING: Final = "running"
"""The result of a run under way; the others are those of `PastRun`."""

LATEST: Final = 253_402_300_799
"""The end of the year 9999, in Unix seconds."""

Time: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
"""Unix seconds."""


class Origin(msgspec.Struct, frozen=True):
    """The run that led to another one."""

    controller: str
    key: str
    run: str


class WokenBy(msgspec.Struct, frozen=True, rename={"origin": "from"}):
    what: str
    verb: str
    kind: str = ""
    key: str = ""
    at: Time | None = None
    origin: Origin | None = None


class Read(msgspec.Struct, frozen=True):
    """An object; a list of them where `key` is empty."""

    kind: str
    key: str


class Difference(msgspec.Struct, frozen=True):
    """A field in two states, as JSON; empty where it is absent. `old`/`new` of a write, else of an object."""

    path: str
    pointer: str = ""
    old: str = ""
    new: str = ""
    desired: str = ""
    live: str = ""


class Written(msgspec.Struct, frozen=True):
    """A write; `at`, `seconds` and `fields` are None where only its words are kept."""

    verb: str
    kind: str
    key: str
    text: str
    at: Time | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    secret: bool = False
    fields: list[Difference] | None = None


class LifeRun(msgspec.Struct, frozen=True):
    """A run; one under way has no `ended`, and no id yet. `left_out` runs just before it are not kept."""

    id: str
    started: Time
    attempt: int
    result: str
    ended: Time | None = None
    error: str = ""
    at: str = ""
    next_at: Time | None = None
    left_out: int = 0
    woken_by: list[WokenBy] = []
    reads: list[Read] = []
    writes: list[Written] = []


class Node(msgspec.Struct, frozen=True):
    """An object with what it owns; `more` children are not listed."""

    kind: str
    key: str
    uid: str = ""
    health: str = ""
    desired: str = "unknown"
    fields: list[Difference] = []
    children: list["Node"] = []
    more: int = 0


class Why(msgspec.Struct, frozen=True):
    state: str
    sentence: str = ""
    next_at: Time | None = None


class SaidCondition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: Time | None = None


class Life(msgspec.Struct, frozen=True):
    """What `object_life.life_of` makes; `runs` are newest first, and times are unix seconds."""

    version: int
    now: Time
    controller: str
    kind: str
    key: str
    health: str
    why: Why
    resource: str = ""
    cluster: str = ""
    exists: bool = True
    uid: str = ""
    reason: str = ""
    created: Time | None = None
    deleting_since: Time | None = None
    finalizers: list[str] = []
    generation: int | None = None
    observed: int | None = None
    conditions: list[SaidCondition] = []
    runs: list[LifeRun] = []
    tree: Node | None = None


def read_life(text: bytes | str | dict[str, Any]) -> Life:
    """A life from its JSON. Raises ValueError for anything else, and for a form of another version."""
    try:
        life = msgspec.convert(text, Life) if isinstance(text, dict) else msgspec.json.decode(text, type=Life)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if life.version != VERSION:
        raise ValueError(f"a life of form {life.version}, not {VERSION}")
    return life
