"""How a group grew before kubernetes/autoscaler PR 7908: the control of the demo, never used otherwise.

The whole Scale was read, changed and written back with the resourceVersion that it was read at, so any
write to the group in between was a 409; and every failure, whatever its kind, put the group into back-off
(kubernetes/autoscaler#7872).
"""

from reconcile import Client

from .groups import NodeGroup


async def grow_like_7872(client: Client, group: NodeGroup, size: int) -> None:
    """One attempt, for the state that this pass saw. Raises whatever comes of it."""
    live = await client.get(type(group.object), group.name, group.namespace, live=True)
    guard = {"uid": live.uid, "resourceVersion": live.metadata.resource_version}
    await client.merge(live, {"spec": {"replicas": size}}, guard=guard)
