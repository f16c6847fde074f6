"""The status of a manager, as values."""

from collections.abc import Sequence

from attrs import frozen

from informers import InformerStatus
from reconcile.controller.runner import ControllerStatus


@frozen
class ClusterStatus:
    """A cluster of a manager: `works` once its first lists are in, and `error` is what prevents that.

    `reachable` is false in an outage of its server, which has lasted `down_seconds`; then `error` is its
    reason. `outages` counts those that have begun.
    """

    name: str
    server: str
    works: bool
    error: str
    reachable: bool = True
    down_seconds: float = 0.0
    outages: int = 0


@frozen
class ManagerStatus:
    """What a manager does now; without leader election it leads.

    `leader` is the identity of the leader as last seen; empty if there is none, or no election.
    """

    server: str
    leading: bool
    controllers: Sequence[ControllerStatus]
    informers: Sequence[InformerStatus]
    clusters: Sequence[ClusterStatus] = ()
    leader: str = ""
