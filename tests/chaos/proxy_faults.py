"""What the proxy does to a request: a value for each way, and the choice among them from a seed."""

import random
from collections.abc import Mapping
from typing import Literal

import msgspec
from attrs import field, frozen

Execution = Literal["never", "before", "after the client gave up"]
"""Whether, and when, the server gets the request: before the client gets its answer, or later."""

AnswerForm = Literal["whole", "made up", "cut", "truncated", "slow", "none"]


@frozen
class ProxyFault:
    """One way to treat a request. `delay` (seconds) passes before the server gets it."""

    name: str
    execution: Execution
    answer: AnswerForm
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)
    delay: tuple[float, float] = (0.0, 0.0)


WatchFault = Literal["lag", "cut", "silence", "half line", "garbage line", "410 event", "twice"]
"""What befalls a watch that has begun."""
WATCH_FAULTS: Mapping[WatchFault, int] = {
    "lag": 6,
    "cut": 1,
    "silence": 3,
    "half line": 1,
    "garbage line": 1,
    "410 event": 1,
    "twice": 1,
}
"""With how often each is chosen. Lag is what uncovers decisions on old state."""
AT_A_LINE = frozenset({"half line", "garbage line", "twice"})
"""What needs a line that the server sends; the rest happens when its time has come."""


def status_body(code: int, reason: str, message: str) -> bytes:
    """The Status that an API server sends with an error."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return msgspec.json.encode({**status, "message": message, "reason": reason, "code": code})


_TIMED_OUT = status_body(500, "InternalError", "etcdserver: request timed out")
_GATEWAY = b"<html><body>the upstream server did not answer</body></html>"
_HTML = {"content-type": "text/html"}
_SOON = {"retry-after": "1"}
_EXPIRED = status_body(410, "Expired", "too old resource version")

_NEVER = (
    ProxyFault("refused", "never", "cut"),
    ProxyFault("500 before", "never", "made up", 500, _TIMED_OUT),
    ProxyFault("502 before", "never", "made up", 502, _GATEWAY, _HTML),
    ProxyFault(
        "503 turned away", "never", "made up", 503, status_body(503, "ServiceUnavailable", "starting"), _SOON
    ),
    ProxyFault("429", "never", "made up", 429, status_body(429, "TooManyRequests", "busy"), _SOON),
    ProxyFault("stalled before", "never", "none"),
)
_EXECUTED = (
    ProxyFault("500 after", "before", "made up", 500, _TIMED_OUT),
    ProxyFault("502 after", "before", "made up", 502, _GATEWAY, _HTML),
    ProxyFault("503 after", "before", "made up", 503, _GATEWAY, _HTML),
    ProxyFault(
        "504 after", "before", "made up", 504, status_body(504, "Timeout", "request did not complete")
    ),
    ProxyFault("garbage", "before", "made up", 200, b'{"kind": "Config\xff'),
    ProxyFault("no object", "before", "made up", 200, b"[]"),
    ProxyFault("empty answer", "before", "made up", 200),
    ProxyFault("cut after", "before", "cut"),
    ProxyFault("truncated", "before", "truncated"),
    ProxyFault("slow answer", "before", "slow"),
    ProxyFault("stalled after", "before", "none"),
)
_DELAYED = ProxyFault("slow request", "before", "whole", delay=(0.1, 2.0))
_LATE = (
    ProxyFault("late after a cut", "after the client gave up", "cut", delay=(0.2, 6.0)),
    ProxyFault("late after a stall", "after the client gave up", "none", delay=(6.0, 12.0)),
    ProxyFault(
        "late after a 504", "after the client gave up", "made up", 504, _GATEWAY, _HTML, delay=(0.2, 6.0)
    ),
)
ANY_WRITE = (*_NEVER, *_EXECUTED, _DELAYED, *_LATE)
"""What may befall a write that names its object."""
_WATCH_STARTS = (
    *_NEVER,
    ProxyFault("410", "never", "made up", 410, _EXPIRED),
    ProxyFault("garbage", "never", "made up", 200, b"\x00\x01 this is no JSON\n"),
    ProxyFault("empty answer", "never", "made up", 200),
)

WRITE = 0.14
"""The part of writes that is tampered with; fewer reads are, and fewer requests for the Lease still."""
READ = 0.07
LEASE = 0.05
WATCH_START = 0.12
WATCH = 0.8
"""The part of watches that something befalls once they have begun."""


@frozen
class ProxiedRequest:
    """What the choice depends on."""

    method: str
    election: bool = False
    watch: bool = False
    generates_name: bool = False
    """Whether the server chooses a name: nothing tells such a create, carried out late, from a new one."""


def choose(chance: random.Random, request: ProxiedRequest) -> ProxyFault | None:
    """The fault for a request; None: it passes as it is.

    No create with `generateName` is carried out late: no client can look for what has no name yet, and
    failure.md says so.
    """
    reading = request.method in ("GET", "HEAD")
    part = WATCH_START if request.watch else LEASE if request.election else READ if reading else WRITE
    if chance.random() >= part:
        return None
    if request.watch:
        return chance.choice(_WATCH_STARTS)
    late = () if reading or request.generates_name else _LATE
    group = chance.choice([_NEVER, _EXECUTED, _EXECUTED, (_DELAYED,), *([late] if late else [])])
    return chance.choice(group)


def choose_for_watch(chance: random.Random) -> tuple[WatchFault, float] | None:
    """What befalls a watch, and after how many seconds; None: nothing."""
    if chance.random() >= WATCH:
        return None
    what = chance.choices(list(WATCH_FAULTS), list(WATCH_FAULTS.values()))[0]
    return what, chance.uniform(0, 2) if what == "lag" else chance.expovariate(1 / 12)


def silence(chance: random.Random) -> float:
    """Seconds: most silences end before a client can notice, some last until it has."""
    return chance.uniform(2, 20) if chance.random() < 0.9 else 160.0


LAG = (0.3, 3.0)
"""Seconds by which all lines of a watch are late."""

EXPIRED_EVENT = b'{"type":"ERROR","object":' + _EXPIRED + b"}\n"
