"""How a group grew before kubernetes/autoscaler PR 7908, for comparison in the demo only.

The whole Scale was written back with the resourceVersion that was read, so any write in between caused a
409; and every failure, whatever its kind, put the group into back-off (kubernetes/autoscaler#7872).
"""

from typing import get_args

from reconcile import Client
from reconcile.blocks import ErrorClass

from ..node_group import NodeGroup
from ..upscale import GroupGrowth


async def grow_like_7872(client: Client, group: NodeGroup, size: int) -> None:
    """One attempt. Raises the errors of requests."""
    live = await client.get(type(group.object), group.name, group.namespace, live=True)
    guard = {"uid": live.uid, "resourceVersion": live.metadata.resource_version}
    await client.raw.merge(live, {"spec": {"replicas": size}}, guard=guard)


LIKE_7872 = GroupGrowth(grow_like_7872, lacking=get_args(ErrorClass))
