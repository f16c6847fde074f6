"""Clocks: this machine's, the API server's, and those that stamp the Leases."""

import datetime
from collections.abc import Iterable, Sequence
from email.utils import parsedate_to_datetime
from typing import Final

from attrs import frozen

from reconcile.doctor.findings import Finding, Severity
from reconcile.doctor.leases import seconds_since
from reconcile.doctor.objects import Lease

CHECK: Final = "clock"
WARN_SECONDS: Final = 5.0
"""Beyond what NTP leaves (below a second), the second that an HTTP date is rounded to, and a slow answer."""
ERROR_SECONDS: Final = 60.0
"""Tokens and certificates are refused that begin in the future; kubelet and cert-manager backdate theirs by
minutes at most, and some not at all."""


@frozen
class ServerTime:
    """The time of the API server, and how far this machine's is ahead of it (s)."""

    now: datetime.datetime
    ahead: float


def server_time(date: str, sent: datetime.datetime, answered: datetime.datetime) -> ServerTime | None:
    """From the Date of an answer; None if it is not a date. It was cut to a second, half of it on average."""
    try:
        stamped = parsedate_to_datetime(date) + datetime.timedelta(seconds=0.5)
    except (ValueError, TypeError):
        return None
    if stamped.tzinfo is None:
        return None
    between = sent + (answered - sent) / 2
    ahead = (between - stamped).total_seconds()
    return ServerTime(answered - datetime.timedelta(seconds=ahead), ahead)


def check_clocks(time: ServerTime, leases: Sequence[Lease]) -> Iterable[Finding]:
    """A Lease that was renewed in the future comes from a machine whose clock is ahead."""
    if abs(time.ahead) > WARN_SECONDS:
        what = f"is {_apart(time.ahead)} the API server's"
        yield Finding(CHECK, _severity(time.ahead), "the clock of this machine", what, "set it by NTP")
    for lease in leases:
        ahead = -(seconds_since(lease.spec.renew_time, time.now) or 0.0)
        if ahead > WARN_SECONDS:
            place = f"{lease.metadata.namespace}/{lease.metadata.name}"
            subject = f"the clock of {lease.spec.holder_identity or 'the holder'}"
            what = f"is {_apart(ahead)} the API server's, by its Lease {place}"
            yield Finding(CHECK, _severity(ahead), subject, what, "set the clock of its node by NTP")


def _severity(ahead: float) -> Severity:
    return "error" if abs(ahead) > ERROR_SECONDS else "warning"


def _apart(ahead: float) -> str:
    return f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'}"
