"""The JSON lines of a manager's log: read from bytes of any origin, and chosen by what they are about.

Whatever is no such line (a line of another program, half a line, a huge one) is none, and never an error.
"""

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import define, field, frozen

MOST: Final = 1 << 20
"""Bytes of one line; what follows them is skipped."""
LEVELS: Final[Sequence[str]] = ("debug", "info", "warning", "error", "critical")

_STAMP: Final = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
_PREFIX: Final = re.compile(
    rb"(?:\[pod/[^\]\s]+\] )?(?P<stamp>" + _STAMP + rb")?(?: std(?:out|err) F)? ?(?=\{)"
)
"""What kubectl (`--prefix`, `--timestamps`) and container runtimes put in front of a line."""


@frozen
class LogLine:
    """One line of a manager. `raw` is its JSON as it came; `pod` wrote it, where that is known."""

    raw: bytes
    fields: Mapping[str, object]
    pod: str = ""

    def text(self, name: str) -> str:
        """A field that is text; empty without one."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    @property
    def time(self) -> datetime.datetime | None:
        return moment_of(self.text("timestamp"))


def parsed(line: bytes, pod: str = "") -> LogLine | None:
    """A line of a manager; None for any other."""
    prefix = _PREFIX.match(line)
    raw = line[prefix.end() :] if prefix else line
    if not raw.startswith(b"{"):
        return None
    try:
        fields = json.loads(raw.decode())  # of bytes, json takes halves of surrogates for text
    except (ValueError, RecursionError):  # UnicodeDecodeError, and numbers of too many digits, are the first
        return None
    if not isinstance(fields.get("event"), str) or not isinstance(fields.get("level"), str):
        return None
    return LogLine(raw, fields, pod)


def stamped(line: bytes) -> tuple[bytes, bytes]:
    """The time that the API server put in front of a line, empty if it put none, and the line."""
    stamp, _, text = line.partition(b" ")
    return (stamp, text) if re.fullmatch(_STAMP, stamp) else (b"", line)


def moment_of(text: str) -> datetime.datetime | None:
    """The time that a timestamp says, in UTC unless it says otherwise; None if it is none."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


@define
class LineSplitter:
    """Makes lines of chunks. At most `MOST` bytes of a line are kept, the rest of it is skipped."""

    _rest: bytearray = field(factory=bytearray, init=False)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that a chunk ends, without their ends."""
        *ended, begun = chunk.split(b"\n")
        for part in ended:
            self._append(part)
            yield self._taken()
        self._append(begun)

    def last(self) -> Iterator[bytes]:
        """The line that nothing has ended, if any."""
        if self._rest:
            yield self._taken()

    def _append(self, part: bytes) -> None:
        self._rest += part[: MOST - len(self._rest)]

    def _taken(self) -> bytes:
        line = bytes(self._rest).removesuffix(b"\r")
        self._rest.clear()
        return line


@frozen
class LogFilter:
    """Which lines are asked for; what is empty chooses all. `kind` and `key` are those of an object."""

    kind: str = ""
    key: str = ""
    controller: str = ""
    reconcile_id: str = ""
    level: str = ""
    since: datetime.datetime | None = None

    @property
    def chooses_all(self) -> bool:
        return self == LogFilter()

    def passes(self, line: LogLine) -> bool:
        """Whether a line is asked for."""
        controller = line.text("controller")
        return (
            self.concerns(line)
            and (not self.kind or is_about(line, self.kind))
            and (not self.controller or self.controller in (controller, _local(controller)))
            and line.text("reconcile_id").startswith(self.reconcile_id)
            and _rank(line.text("level")) >= _rank(self.level)
            and (self.since is None or self._is_recent(line))
        )

    def concerns(self, line: LogLine) -> bool:
        """Whether a line has the key that is asked for, in any cluster unless the key names one."""
        key = line.text("key")
        return not self.key or key == self.key or key.partition(":")[2] == self.key

    def _is_recent(self, line: LogLine) -> bool:
        return self.since is not None and line.time is not None and line.time >= self.since


def is_about(line: LogLine, kind: str) -> bool:
    """Whether a line is of a controller of this name, or of one of this kind."""
    # A line has the kind only where the name of its controller is another one.
    return is_named(line.text("controller"), kind) or is_named(line.text("kind"), kind)


def is_named(controller: str, kind: str) -> bool:
    """Whether a controller has this name, or that of a kind: in any case, in the plural, with its group."""
    name, asked = _local(controller).lower(), kind.lower()
    plurals = (name, f"{name}s", f"{name}es", f"{name.removesuffix('y')}ies")
    return bool(name) and (asked in (*plurals, controller.lower()) or asked.partition(".")[0] in plurals)


def _local(controller: str) -> str:
    """The name without that of its cluster: `site` of `east/site`."""
    return controller.rpartition("/")[2]


def _rank(level: str) -> int:
    """Higher is worse; a level that is not known is never left out."""
    if not level:
        return 0
    return LEVELS.index(level.lower()) if level.lower() in LEVELS else len(LEVELS)
