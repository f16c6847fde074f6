"""Faults of the calls of webhooks, as the API server meets them while it carries out a request."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import anyio
import msgspec
from attrs import define, field

from reconcile.testing.faults import CallFailure, FailCall, Fault
from reconcile.webhooks.in_process import answer_at_once
from reconcile.webhooks.routes import CONVERT, Route

SLOW_SECONDS: Final = 60.0
"""Longer than any time-out of a call."""
_OTHER_UID: Final = "00000000-0000-0000-0000-000000000000"
_ERRORS: Final[dict[CallFailure, str]] = {
    "down": "dial tcp: connect: connection refused",
    "expired": "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
    "rotating": "tls: failed to verify certificate: x509: certificate signed by unknown authority",
}


@define(eq=False)
class CallFaults:
    """What the calls of webhooks meet that the requests of one transport cause.

    `note` is called with each fault that happens, and for how many seconds the server may wait for it.
    """

    _faults: Callable[[], Sequence[Fault]]
    _process: int
    _note: Callable[[str, FailCall, float], None]
    paths: list[str] = field(factory=list, init=False)
    """Of all calls, in order."""
    _counts: Counter[int] = field(factory=Counter, init=False)

    @contextmanager
    def caused_here(self) -> Iterator[None]:
        """The calls that are made inside, by this task, are those of the transport."""
        token = _CALLER.set(self)
        try:
            yield
        finally:
            _CALLER.reset(token)

    async def answer(self, route: Route, body: bytes) -> tuple[int, bytes]:
        """The status and body of an answer. Raises ConnectionError for a call that does not arrive."""
        self.paths.append(route.path)
        fault = self._met(route)
        if fault is None:
            return await answer_at_once(route, body)
        self._note(route.path, fault, SLOW_SECONDS if fault.how == "slow" else 0.0)
        if fault.how in _ERRORS:
            raise ConnectionError(f"{_ERRORS[fault.how]} (a planned fault)")
        if fault.how == "slow":
            await anyio.sleep(SLOW_SECONDS)
        if fault.how == "unconvertible":
            return 200, _unconverted(body)
        status, made = await answer_at_once(route, body)
        return status, _with_uid(made, _OTHER_UID) if fault.how == "wrong uid" and status == 200 else made

    def _met(self, route: Route) -> FailCall | None:
        met = None
        for number, fault in enumerate(self._faults()):
            if not isinstance(fault.what, FailCall) or fault.when.process not in (None, self._process):
                continue
            if fault.what.how == "unconvertible" and route.function != CONVERT:
                continue
            if fault.when.matches("create", route.path):
                self._counts[number] += 1
                if met is None and fault.when.meets(self._counts[number]):
                    met = fault.what
        return met


_CALLER: Final[ContextVar[CallFaults | None]] = ContextVar("_CALLER", default=None)


async def answer_call(route: Route, body: bytes) -> tuple[int, bytes]:
    """The status and body with which a webhook answers; only requests of managers cause faults.

    Raises ConnectionError for a call that does not arrive.
    """
    caller = _CALLER.get()
    return await (answer_at_once if caller is None else caller.answer)(route, body)


def _unconverted(body: bytes) -> bytes:
    review = msgspec.json.decode(body)
    result = {"status": "Failure", "message": "the object cannot be converted (a planned fault)"}
    response = {"uid": review["request"]["uid"], "convertedObjects": [], "result": result}
    return msgspec.json.encode(
        {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
    )


def _with_uid(body: bytes, uid: str) -> bytes:
    review = msgspec.json.decode(body)
    return msgspec.json.encode({**review, "response": {**review["response"], "uid": uid}})
