"""Which kopf operators are alive, by the peering objects in which they sign.

A kopf operator writes `status.<identity> = {priority, lifetime, lastseen}` to the peering object of its name,
a few seconds before its former entry expires, and removes the entry at its end. It pauses while a live peer
has a higher priority; of peers with the same priority all pause (kopf 1.45, `_core/engines/peering.py`).
"""

import datetime
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from informers import APIResource

LIFETIME = 60
"""Seconds for which an entry holds that says nothing else."""
MAX_LIFETIME = 10**9
"""An entry that says more holds this long: some thirty years."""
FREEZE_PRIORITY = 100
"""The priority with which `kopf freeze` signs; kopf operators have 0, and 666 with `kopf run --dev`."""

PEERINGS = tuple(
    APIResource(group, "v1", kind, plural, namespaced)
    for group in ("kopf.dev", "zalando.org")
    for plural, kind, namespaced in (
        ("clusterkopfpeerings", "ClusterKopfPeering", False),
        ("kopfpeerings", "KopfPeering", True),
    )
)
"""The kinds of peering objects; `zalando.org` is the older name of the group."""


@frozen
class Peer:
    """An operator that signed in a peering object; it holds for `lifetime` seconds after `last_seen`.

    `last_seen` is None if the entry has no time, or none that can be read: kopf takes that for now.
    """

    identity: str
    priority: int = 0
    lifetime: float = LIFETIME
    last_seen: datetime.datetime | None = None

    def seconds_left(self, now: datetime.datetime) -> float:
        """For how many seconds it still counts as alive; 0 if it does not."""
        passed = 0.0 if self.last_seen is None else (now - self.last_seen).total_seconds()
        return max(0.0, self.lifetime - passed)

    def is_alive(self, now: datetime.datetime) -> bool:
        return self.seconds_left(now) > 0


def peers_in(peering: Mapping[str, Any]) -> tuple[Peer, ...]:
    """The entries of a peering object, as its JSON; an entry that is not an object is left out.

    What cannot be read in an entry counts as kopf's default, so that a damaged entry is taken for alive.
    """
    status = peering.get("status")
    if not isinstance(status, Mapping):
        return ()
    return tuple(
        Peer(identity, _priority(entry), _lifetime(entry), _last_seen(entry.get("lastseen")))
        for identity, entry in status.items()
        if isinstance(identity, str) and isinstance(entry, Mapping)
    )


def entry_of(priority: int, lifetime: int, now: datetime.datetime) -> Mapping[str, Any]:
    """What a peer writes under its identity. `now` is aware of its zone."""
    return {"priority": priority, "lifetime": lifetime, "lastseen": now.isoformat()}


def pausing(peers: tuple[Peer, ...], identity: str, now: datetime.datetime) -> bool:
    """Whether all live peers but `identity` pause as long as its entry holds."""
    own = [peer for peer in peers if peer.identity == identity and peer.is_alive(now)]
    others = [peer for peer in peers if peer.identity != identity and peer.is_alive(now)]
    return bool(own) and all(peer.priority < own[0].priority for peer in others)


def _priority(entry: Mapping[str, Any]) -> int:
    value = entry.get("priority")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _lifetime(entry: Mapping[str, Any]) -> float:
    value = entry.get("lifetime")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return LIFETIME
    return max(0, min(value, MAX_LIFETIME)) if value == value else LIFETIME  # NaN is not equal to itself


def _last_seen(value: object) -> datetime.datetime | None:
    if not isinstance(value, str):
        return None
    try:
        time = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
