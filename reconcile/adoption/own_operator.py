"""Whether the new operator is at work, by its Deployment and its Leases."""

from collections.abc import AsyncIterator

from informers import Clock
from reconcile.adoption.audit import counted
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.client.sender import Sender
from reconcile.doctor.leases import is_expired
from reconcile.doctor.objects import Lease
from reconcile.doctor.reading import Reader
from reconcile.manager.option_list import ManagerOptions
from reconcile.sharding.member_lease import RING_LABEL


class OwnOperatorActive(Exception):
    """The new operator is at work: what was found, and how to stop it."""

    def __init__(self, found: str, hint: str) -> None:
        super().__init__(f"{found}: {hint}")
        self.found = found
        self.hint = hint


async def check_stopped(
    sender: Sender, clock: Clock, name: str, namespace: str, options: ManagerOptions
) -> None:
    """Raises OwnOperatorActive if the operator has pods, asks for some, or holds a Lease; and ApiError.

    `name` and `namespace` are those of its Deployment, `options` those of its manager.
    """
    for one in await ClusterReading(sender, clock).deployments([f"{namespace}/{name}"]):
        if one.replicas:
            raise OwnOperatorActive(
                f"the Deployment {one.name} asks for {counted(one.replicas, 'replica')}",
                f"stop it: kubectl scale -n {namespace} deployment/{name} --replicas=0",
            )
        if one.pods:
            raise OwnOperatorActive(
                f"the Deployment {one.name} has {counted(one.pods, 'pod')} not ended",
                "wait until they have gone: the process of a pod that is being deleted works until then",
            )
    reader = Reader(sender.transport)
    async for lease in _leases(reader, name, namespace, options):
        holder = lease.spec.holder_identity
        if holder and not is_expired(lease, clock.now()):
            raise OwnOperatorActive(
                f"{holder} holds the Lease {lease.metadata.namespace}/{lease.metadata.name}",
                "end that process, and wait until its Lease has expired",
            )


async def _leases(reader: Reader, name: str, namespace: str, options: ManagerOptions) -> AsyncIterator[Lease]:
    """Those of its ring, and that of its leader: as its options name it, or else `reconcile manifests`."""
    election, ring = options["leader_election"], options["sharding"]
    home, lease = (namespace, name) if election is None else (election.namespace, election.name)
    found = await reader.get(f"{_path(home)}/{lease}", Lease)
    if found is not None:
        yield found
    if ring is not None:
        for member in await reader.list(_path(ring.namespace), Lease, f"{RING_LABEL}={ring.name}"):
            yield member


def _path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
