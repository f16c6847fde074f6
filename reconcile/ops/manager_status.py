"""What a manager says of itself."""

from collections.abc import Sequence

from attrs import frozen

from informers import InformerStatus
from reconcile.controller.runner import ControllerStatus


@frozen
class ClusterStatus:
    """A cluster of a manager: `works` once its first lists are there, `error` is what it lacks for that.

    `reachable` is false in an outage of its server, which has lasted `down_seconds`; then `error` is what
    stands in the way. `outages` counts those that have begun.
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

    `leader` is who leads as far as is known here; empty where nobody does, or there is no election.
    """

    server: str
    leading: bool
    controllers: Sequence[ControllerStatus]
    informers: Sequence[InformerStatus]
    clusters: Sequence[ClusterStatus] = ()
    leader: str = ""
