"""Waiting until a check holds, and checking that it goes on holding, in virtual and in real time."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, overload

import anyio
from attrs import frozen

from informers import ApiError

T = TypeVar("T")
PolledCheck: TypeAlias = Callable[[], Any]
"""Holds if it returns anything but False and None; an AssertionError counts as False."""

_SHORTEST = 0.001


class NotYet(AssertionError):
    """A check did not hold in time; has its last result."""


class NoLonger(AssertionError):
    """A check ceased to hold; has the time, and its result then."""


@overload
async def eventually(
    check: Callable[[], Awaitable[T | None]], *, within: float = 30.0, every: float = 0.1
) -> T: ...
@overload
async def eventually(check: Callable[[], T | None], *, within: float = 30.0, every: float = 0.1) -> T: ...
async def eventually(check: PolledCheck, *, within: float = 30.0, every: float = 0.1) -> Any:
    """Poll until `check` holds, and return what it returned.

    `check` is called without arguments and may be async. `within` and `every` are seconds. An ApiError that
    it raises counts as not yet, like an AssertionError; any other error is raised at once. Raises `NotYet`
    when the time is over, after one last call; a call that takes longer than that is cancelled.
    """
    __tracebackhide__ = True  # for pytest: it is the caller's line that matters
    result = _CheckResult(False, None, None)
    calls = 0
    began = anyio.current_time()
    while True:
        left = began + within - anyio.current_time()
        with anyio.move_on_after(max(left, _SHORTEST)) as limit:
            result = await _call(check)
            calls += 1
        if result.holds and not limit.cancelled_caught:
            return result.value
        if left <= 0 or limit.cancelled_caught:
            raise NotYet(
                f"did not hold within {within:g} s, in {calls} call{'' if calls == 1 else 's'}: "
                f"{_source(check)}\n{result.summary}"
            ) from result.error
        await anyio.sleep(min(max(every, _SHORTEST), max(left, 0)))


async def consistently(check: PolledCheck, *, during: float = 10.0, every: float = 0.1) -> None:
    """Poll for so many seconds, and check that `check` holds each time.

    As for `eventually`, but an ApiError is raised. Raises `NoLonger` at the first call that does not hold,
    or that is still running when the time is over.
    """
    __tracebackhide__ = True
    began = anyio.current_time()
    calls = 0
    result = _CheckResult(False, None, None)
    while True:
        passed = anyio.current_time() - began
        with anyio.move_on_after(max(during - passed, _SHORTEST)) as limit:
            result = await _call(check)
        if limit.cancelled_caught:
            raise NoLonger(f"a call was still running after {during:g} s: {_source(check)}")
        calls += 1
        if isinstance(result.error, ApiError):
            raise result.error
        if not result.holds:
            raise NoLonger(
                f"ceased to hold after {passed:.3g} of {during:g} s, at call {calls}: "
                f"{_source(check)}\n{result.summary}"
            ) from result.error
        if passed >= during:
            return
        await anyio.sleep(min(max(every, _SHORTEST), during - passed))


@frozen
class _CheckResult:
    holds: bool
    value: Any
    error: Exception | None

    @property
    def summary(self) -> str:
        if self.error is not None:
            return f"last result: {type(self.error).__name__}: {self.error}"
        return f"last result: {self.value!r}"


async def _call(check: PolledCheck) -> _CheckResult:
    try:
        found = check()
        value = await found if inspect.isawaitable(found) else found
    except (AssertionError, ApiError) as error:
        return _CheckResult(False, None, error)
    return _CheckResult(value is not None and value is not False, value, None)


def _source(check: PolledCheck) -> str:
    """The source of a check if it is one line, else its name."""
    try:
        lines = inspect.getsource(check).strip().splitlines()
    except (OSError, TypeError):
        return repr(check)
    if len(lines) == 1:
        return lines[0].strip()
    return f"{getattr(check, '__name__', 'check')}()"
