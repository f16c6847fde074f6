"""Waiting for what is to be, and watching that something stays: the same in virtual and in real time.

Both look again and again, by the clock of the event loop. Under a `VirtualTimeLoop` the seconds cost nothing.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, overload

import anyio
from attrs import frozen

from informers import ApiError

T = TypeVar("T")
Check: TypeAlias = Callable[[], Any]
"""Looks at the world: holds if it returns anything but False and None, fails so or by AssertionError."""

_SHORTEST = 0.001


class NotYet(AssertionError):
    """What was waited for did not come to hold, and says how it was last seen."""


class NoLonger(AssertionError):
    """What was to stay did not, and says when it ceased and how it was then seen."""


@overload
async def eventually(
    check: Callable[[], Awaitable[T | None]], *, within: float = 30.0, every: float = 0.1
) -> T: ...
@overload
async def eventually(check: Callable[[], T | None], *, within: float = 30.0, every: float = 0.1) -> T: ...
async def eventually(check: Check, *, within: float = 30.0, every: float = 0.1) -> Any:
    """Look until `check` holds, and return what it returned.

    `check` is called without arguments and may be async. `within` and `every` are seconds. An ApiError
    that it raises (what is looked for may not be there yet) is looked past, like an AssertionError; any
    other error is raised at once. Raises `NotYet` when the time is over, after one last look; a look that
    takes longer than that is cut short.
    """
    __tracebackhide__ = True  # for pytest: it is the caller's line that matters
    seen = _Seen(False, None, None)
    looks = 0
    began = anyio.current_time()
    while True:
        left = began + within - anyio.current_time()
        with anyio.move_on_after(max(left, _SHORTEST)) as limit:
            seen = await _look(check)
            looks += 1
        if seen.holds and not limit.cancelled_caught:
            return seen.value
        if left <= 0 or limit.cancelled_caught:
            raise NotYet(
                f"did not hold within {within:g} s, in {_times(looks)}: {_told(check)}\n{seen.story}"
            ) from seen.error
        await anyio.sleep(min(max(every, _SHORTEST), max(left, 0)))


async def consistently(check: Check, *, during: float = 10.0, every: float = 0.1) -> None:
    """Look for so many seconds, and see that `check` holds each time.

    As for `eventually`, but an ApiError is no excuse: it is raised. Raises `NoLonger` at the first look
    at which it does not hold, or that is not over when the time is.
    """
    __tracebackhide__ = True
    began = anyio.current_time()
    looks = 0
    seen = _Seen(False, None, None)
    while True:
        passed = anyio.current_time() - began
        with anyio.move_on_after(max(during - passed, _SHORTEST)) as limit:
            seen = await _look(check)
        if limit.cancelled_caught:
            raise NoLonger(f"a look was not over after {during:g} s: {_told(check)}")
        looks += 1
        if isinstance(seen.error, ApiError):
            raise seen.error
        if not seen.holds:
            raise NoLonger(
                f"ceased to hold after {passed:.3g} of {during:g} s, at look {looks}: "
                f"{_told(check)}\n{seen.story}"
            ) from seen.error
        if passed >= during:
            return
        await anyio.sleep(min(max(every, _SHORTEST), during - passed))


@frozen
class _Seen:
    holds: bool
    value: Any
    error: Exception | None

    @property
    def story(self) -> str:
        if self.error is not None:
            return f"last seen: {type(self.error).__name__}: {self.error}"
        return f"last seen: {self.value!r}"


async def _look(check: Check) -> _Seen:
    try:
        found = check()
        value = await found if inspect.isawaitable(found) else found
    except (AssertionError, ApiError) as error:
        return _Seen(False, None, error)
    return _Seen(value is not None and value is not False, value, None)


def _times(looks: int) -> str:
    return "1 look" if looks == 1 else f"{looks} looks"


def _told(check: Check) -> str:
    """The check as its author wrote it, as far as that can be found; else its name."""
    try:
        lines = inspect.getsource(check).strip().splitlines()
    except (OSError, TypeError):
        return repr(check)
    if len(lines) == 1:
        return lines[0].strip()
    return f"{getattr(check, '__name__', 'check')}()"
