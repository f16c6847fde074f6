"""Leases: whether one live pod leads, and the buckets of a ring have live owners."""

import datetime
from collections.abc import Iterable, Sequence
from typing import Final

from reconcile.client.buckets import in_ranges
from reconcile.doctor.declared import Declared
from reconcile.doctor.findings import Finding, Severity
from reconcile.doctor.managers import ManagerState
from reconcile.doctor.objects import Lease, Pod
from reconcile.sharding.assignment import Assignment, AssignmentError
from reconcile.sharding.ring import ASSIGNMENT, assignment_name

CHECK: Final = "leases"
RECENT: Final = 600.0
"""Seconds: an acquisition that is older is not part of a fight."""
DEFAULT_SECONDS: Final = 15


def seconds_since(time: str | None, now: datetime.datetime) -> float | None:
    """Seconds from a time of a Lease until `now`; None for what is not a time."""
    try:
        then = datetime.datetime.fromisoformat(time or "")
        return (now - then).total_seconds()
    except (ValueError, TypeError):
        return None


def is_expired(lease: Lease, now: datetime.datetime) -> bool:
    """Whether its holder has not renewed it for longer than it may."""
    age = seconds_since(lease.spec.renew_time, now)
    return age is None or age > (lease.spec.lease_duration_seconds or DEFAULT_SECONDS)


def is_suspect(lease: Lease, now: datetime.datetime) -> bool:
    """Whether a second look is worth its wait: it looks expired, or changed hands a moment ago."""
    acquired = seconds_since(lease.spec.acquire_time, now)
    changed = (lease.spec.lease_transitions or 0) > 0 and acquired is not None and acquired < RECENT
    return changed or is_expired(lease, now)


def check_leader(
    declared: Declared,
    lease: Lease | None,
    again: Lease | None,
    pods: Sequence[Pod],
    managers: Sequence[ManagerState],
    now: datetime.datetime,
) -> Iterable[Finding]:
    """`again`: the same Lease, some seconds later; as before where no second look was needed."""
    assert declared.lease is not None
    subject = f"Lease {'/'.join(declared.lease)}"
    leaders = [one.where for one in managers if one.state.leading]
    if len(leaders) > 1:
        step = "give all the same --leader-election, and delete the pod that is not the holder"
        yield Finding(
            CHECK, "error", subject, f"has {len(leaders)} managers that lead: {', '.join(leaders)}", step
        )
    if lease is None or again is None:
        if pods:
            what, step = (
                "does not exist, though pods run",
                "see their logs: they may lack the right, or fail before",
            )
            yield Finding(CHECK, "error", subject, what, step)
        return
    holder = again.spec.holder_identity or ""
    changes = (again.spec.lease_transitions or 0) - (lease.spec.lease_transitions or 0)
    former = lease.spec.holder_identity or ""
    if changes > 1 or (changes == 1 and _is_live(former, pods) and _is_live(holder, pods)):
        what = f"passes to and fro: it changed hands {changes} times while this command ran, now to {holder}"
        step = (
            "look for restarts, for a blocked event loop (reconcile top) and for slow answers of the server"
        )
        yield Finding(CHECK, "error", subject, what, step)
    elif is_expired(again, now) and again.spec == lease.spec:
        yield _without_leader(declared, subject, holder, pods)
    elif holder and not _is_live(holder, pods):
        what = f"is held by {holder}, which is not a pod of this operator"
        yield Finding(CHECK, "error", subject, what, "end that process: the pods here wait for it")


def _without_leader(declared: Declared, subject: str, holder: str, pods: Sequence[Pod]) -> Finding:
    what = f"was not renewed in time by {holder}" if holder else "has no holder"
    step = f"kubectl -n {declared.namespace} logs deployment/{declared.name}: its pods do not take it"
    severity: Severity = "error" if pods else "warning"
    return Finding(CHECK, severity, subject, f"{what}, so nothing leads", step)


def check_ring(
    declared: Declared, leases: Sequence[Lease], pods: Sequence[Pod], now: datetime.datetime
) -> Iterable[Finding]:
    assert declared.ring is not None
    namespace, name = declared.ring
    subject, by_name = f"ring {namespace}/{name}", {one.metadata.name: one for one in leases}
    assigned = by_name.pop(assignment_name(name), None)
    shards = f"reconcile shards {namespace}/{name}"
    if assigned is None:
        if pods:
            what = f"has no Lease {assignment_name(name)}, so no replica has an object to work on"
            yield Finding(CHECK, "error", subject, what, "see the logs of the pods, and the rights")
        return
    live = {one.spec.holder_identity or "" for one in by_name.values() if not is_expired(one, now)}
    try:
        text = (assigned.metadata.annotations or {}).get(ASSIGNMENT, "")
        holdings = Assignment.from_text(text).holdings
    except AssignmentError:
        what = "has an assignment that cannot be read"
        yield Finding(
            CHECK, "error", subject, what, f"delete the Lease {assignment_name(name)}: replicas agree anew"
        )
        return
    unowned = [number for number, one in enumerate(holdings) if one.owner not in live]
    if unowned:
        what = f"has {len(unowned)} of {len(holdings)} buckets without a live owner: {in_ranges(unowned)}"
        yield Finding(
            CHECK, "error", subject, what, f"see {shards}; it passes within seconds if a replica is up"
        )
    for identity in sorted(live):
        if not _is_live(identity, pods):
            what = f"has the member {identity}, which is not a pod of this operator"
            yield Finding(CHECK, "warning", subject, what, f"end that process; {shards} shows what it holds")


def _is_live(identity: str, pods: Sequence[Pod]) -> bool:
    """An identity is by default the name of the host, which is that of the pod, and a random part.

    It comes after `_` in a Lease of a leader, and after `-` in a ring, where it is part of a name.
    """
    names = [pod.metadata.name for pod in pods if pod.lives]
    return any(identity == name or identity.startswith((f"{name}_", f"{name}-")) for name in names)
