"""The status of a manager, as values."""

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from informers import InformerStatus
from reconcile.controller.controller_status import ControllerStatus


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
class ShardingStatus:
    """The part of a replica in its ring, `NAMESPACE/NAME`, whose objects are in `buckets` parts.

    It works on those that are `held`; `warming` are about to be, `closing` about to go to another replica.
    `epochs` are the lowest and the highest of what it holds; `members` have the number of buckets that each
    owns, and are empty until it has seen them. `leads`: it alone runs the controllers that need all objects.
    `served`: the server selects objects by shard. `followed` says by what each resource is shared: its `uid`,
    the `label` of its owner's bucket, or `both`; `whole` resources are not shared.
    """

    ring: str
    identity: str
    buckets: int
    held: Sequence[int] = ()
    warming: Sequence[int] = ()
    closing: Sequence[int] = ()
    epochs: tuple[int, int] = (0, 0)
    members: Mapping[str, int] = field(factory=dict)
    leads: bool = False
    served: bool = False
    followed: Mapping[str, str] = field(factory=dict)


@frozen
class ManagerStatus:
    """What a manager does now. `leader` is the one last seen, or empty; without leader election it leads.

    With `sharding` it leads while it works on some bucket.
    """

    server: str
    leading: bool
    controllers: Sequence[ControllerStatus]
    informers: Sequence[InformerStatus]
    clusters: Sequence[ClusterStatus] = ()
    leader: str = ""
    sharding: ShardingStatus | None = None
