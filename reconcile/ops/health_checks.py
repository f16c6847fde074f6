"""Health checks of a process for kubelets, in the format of Kubernetes' own health pages."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping

from attrs import frozen

from informers import get_logger
from informers.cancellation import FAILURES
from informers.functions import check_function

Check = Callable[[], object]
"""Raises, or returns False, if something is wrong. It is called in the event loop, so it must be quick."""

_log = get_logger("reconcile.health")


@frozen
class Health:
    status: int
    text: str


def checked(checks: Mapping[str, Check]) -> Mapping[str, Check]:
    """The same checks. Raises TypeError for one that is not a plain function without arguments."""
    for name, check in checks.items():
        check_function(check, f"the health check {name!r}", "", "plain")
    return checks


def ping() -> None:
    """Passes whenever it can be called at all."""


def run_checks(page: str, checks: Mapping[str, Check]) -> Mapping[str, bool]:
    """Which of them pass. The reason of a failure is logged, and withheld from answers as in Kubernetes."""
    return {name: _passes(page, name, check) for name, check in checks.items()}


def all_pass(checks: Mapping[str, Check]) -> bool:
    """Whether all of them pass; nothing is logged."""
    return not any(_failure(check) for check in checks.values())


def report(
    page: str, passed: Mapping[str, bool], *, exclude: Collection[str] = (), verbose: bool = False
) -> Health:
    """The answer for these checks, except those to exclude: 200 and `ok`, or 500 with one line a check."""
    lines: list[str] = []
    failed = False
    for name, passes in passed.items():
        if name in exclude:
            lines.append(f"[+]{name} excluded: ok")
        elif passes:
            lines.append(f"[+]{name} ok")
        else:
            failed = True
            lines.append(f"[-]{name} failed: reason withheld")
    if unknown := sorted(set(exclude) - set(passed)):
        named = ", ".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
    if failed:
        return Health(500, "\n".join([*lines, f"{page} check failed", ""]))
    return Health(200, "\n".join([*lines, f"{page} check passed", ""]) if verbose else "ok")


def _passes(page: str, name: str, check: Check) -> bool:
    failure = _failure(check)
    if failure:
        _log.info("a health check failed", page=page, check=name, error=failure)
    return not failure


def _failure(check: Check) -> str:
    """What is wrong; empty if it passes."""
    try:
        answer = check()
    except FAILURES as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(answer, Coroutine):
        answer.close()
    if answer is False or isinstance(answer, Awaitable):
        return f"TypeError: it returned {type(answer).__name__}: a check raises if something is wrong"
    return ""
