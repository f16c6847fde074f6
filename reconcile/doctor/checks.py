"""All checks, in the order in which they are told. Pure: from facts to a report."""

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from reconcile.doctor import (
    clocks,
    definitions,
    fairness,
    finalizers,
    leases,
    managers,
    operator,
    rights,
    webhooks,
)
from reconcile.doctor.declared import Declared
from reconcile.doctor.facts import Facts
from reconcile.doctor.findings import Finding, Report, Unread, at_most

Check: TypeAlias = Callable[[Declared, Facts], Iterable[Finding]]
_T = TypeVar("_T")


class _Missing(Exception):
    """A check needs a fact that could not be read."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.what)
        self.unread = unread


def report_of(declared: Declared, facts: Facts) -> Report:
    """What each check finds; one whose facts could not be read says so, and the others go on."""
    chosen = checks_for(declared)
    found = [finding for name in chosen for finding in _run(name, CHECKS[name], declared, facts)]
    return Report(tuple(chosen), tuple(found))


def checks_for(declared: Declared) -> Sequence[str]:
    """The checks that say something about this operator: some need its code."""
    return [name for name in CHECKS if declared.module or name not in OF_CODE]


def _run(name: str, check: Check, declared: Declared, facts: Facts) -> Sequence[Finding]:
    try:
        return at_most(list(check(declared, facts)))
    except _Missing as missing:
        return [missing.unread.finding(name)]


def _read(fact: _T | Unread) -> _T:
    if isinstance(fact, Unread):
        raise _Missing(fact)
    return fact


def _operator(declared: Declared, facts: Facts) -> Iterable[Finding]:
    return operator.check_operator(declared, _read(facts.deployment), _read(facts.pods))


def _rights(declared: Declared, facts: Facts) -> Iterable[Finding]:
    return rights.check_rights(declared, _read(facts.access))


def _definitions(declared: Declared, facts: Facts) -> Iterable[Finding]:
    return definitions.check_definitions(declared, _read(facts.definitions))


def _stored(declared: Declared, facts: Facts) -> Iterable[Finding]:
    return definitions.check_stored(declared, _read(facts.definitions))


def _webhooks(declared: Declared, facts: Facts) -> Iterable[Finding]:
    seen = _read(facts.webhooks)
    return webhooks.check_webhooks(seen.calls, seen.backends, facts.now)


def _finalizers(declared: Declared, facts: Facts) -> Iterable[Finding]:
    return finalizers.check_finalizers(declared, _read(facts.finalizers), _read(facts.pods))


def _lenient_now(facts: Facts) -> datetime.datetime:
    """The earlier of this machine's time and the server's: a clock that is ahead lets no Lease run out."""
    ahead = 0.0 if isinstance(facts.time, Unread) else max(0.0, facts.time.ahead)
    return facts.now - datetime.timedelta(seconds=ahead)


def _leases(declared: Declared, facts: Facts) -> Iterable[Finding]:
    _read(facts.deployment)  # its arguments say which Lease there is
    pods = _read(facts.pods)
    if declared.ring is not None:
        yield from leases.check_ring(declared, _read(facts.members), pods, _lenient_now(facts))
    if declared.lease is not None:
        seen = _read(facts.leading)
        known = () if isinstance(facts.managers, Unread) else facts.managers
        yield from leases.check_leader(declared, seen.first, seen.again, pods, known, facts.now)


def _storms(declared: Declared, facts: Facts) -> Iterable[Finding]:
    return managers.check_storms(_read(facts.managers))


def _caches(declared: Declared, facts: Facts) -> Iterable[Finding]:
    return managers.check_caches(_read(facts.managers))


def _clock(declared: Declared, facts: Facts) -> Iterable[Finding]:
    members = () if isinstance(facts.members, Unread) else facts.members
    leader = None if isinstance(facts.leading, Unread) else facts.leading.again
    return clocks.check_clocks(_read(facts.time), [*members, *([] if leader is None else [leader])])


def _priority(declared: Declared, facts: Facts) -> Iterable[Finding]:
    known = () if isinstance(facts.managers, Unread) else facts.managers
    yield from fairness.check_refused(known)
    yield from fairness.check_flows(declared, facts.account, _read(facts.flows))


CHECKS: Final[dict[str, Check]] = {
    operator.CHECK: _operator,
    rights.CHECK: _rights,
    definitions.CHECK: _definitions,
    definitions.STORED: _stored,
    webhooks.CHECK: _webhooks,
    finalizers.CHECK: _finalizers,
    leases.CHECK: _leases,
    managers.STORMS: _storms,
    managers.CACHES: _caches,
    clocks.CHECK: _clock,
    fairness.CHECK: _priority,
}
OF_CODE: Final = frozenset({rights.CHECK, definitions.CHECK})
"""The checks that compare the cluster with the code."""
