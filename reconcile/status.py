"""What a manager says of itself."""

from collections.abc import Sequence

from attrs import frozen

from informers import InformerStatus
from reconcile.clusters import ClusterStatus
from reconcile.runner import ControllerStatus


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
