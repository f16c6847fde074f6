"""The status of a manager, as values."""

from collections.abc import Sequence

from attrs import frozen

from informers import InformerStatus
from reconcile.controller.runner import ControllerStatus


@frozen
class ClusterStatus:
    """A cluster: `works` once its first lists are in; `error` prevents that, or explains an outage."""

    name: str
    server: str
    works: bool
    error: str
    reachable: bool = True
    down_seconds: float = 0.0
    outages: int = 0


@frozen
class ManagerStatus:
    """What a manager does now. `leader` is the one last seen, or empty; without leader election it leads."""

    server: str
    leading: bool
    controllers: Sequence[ControllerStatus]
    informers: Sequence[InformerStatus]
    clusters: Sequence[ClusterStatus] = ()
    leader: str = ""
