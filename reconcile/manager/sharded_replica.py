"""A manager as one of several replicas that share all objects: joins the ring, takes part, and leaves it."""

from collections.abc import Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, evolve, field

from informers import APIResource, ReachTransport, Snapshot, Transport, get_logger
from informers.informer_share import shards_served
from reconcile.client.certainty import Certainty, LeaseTerms
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.controller.held_buckets import HeldBuckets
from reconcile.controller.run_observer import BucketObserver
from reconcile.manager.managed_clusters import ManagedCluster
from reconcile.manager.option_list import ConfigurationError, ManagerOptions, followed_namespaces, lease_terms
from reconcile.manager.server_readiness import until_ready
from reconcile.manager.sharded_work import ShardedWork
from reconcile.manager.sharding_status import holder_of, status_of
from reconcile.ops.manager_status import ShardingStatus
from reconcile.runs.supervision import noted
from reconcile.sharding.assignment import AssignmentError, MemberRecord
from reconcile.sharding.child_labels import ChildLabels
from reconcile.sharding.coordinator import Coordinator
from reconcile.sharding.hand_overs import HandOverMetrics
from reconcile.sharding.member import Member
from reconcile.sharding.member_lease import MemberLease
from reconcile.sharding.options import Sharding
from reconcile.sharding.ring import Ring
from reconcile.sharding.shared_kinds import Sharing, shared_kinds

_log = get_logger("reconcile.sharding")


@define(eq=False)
class ShardedReplica:
    """One replica. `client` bypasses guards of writes; `labels` is guarded by the Lease of this member."""

    client: Client
    sharding: Sharding
    terms: LeaseTerms
    certainty: Certainty
    work: ShardedWork
    labels: ChildLabels
    ring: Ring
    metrics: HandOverMetrics | None = None
    controllers: Sequence[Controller[Any]] = ()
    """Those it began with."""
    lease: MemberLease = field(init=False)
    member: Member = field(init=False)
    coordinator: Coordinator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.lease = MemberLease(
            self.client, self.sharding, self.terms, self.certainty, lambda: self.member.record
        )
        base = MemberRecord(canary=self.sharding.canary, version=self.sharding.version)
        self.member = Member(self.sharding, self.ring, self.lease, self.work, base, self.metrics)
        self.coordinator = Coordinator(self.client, self.ring)

    async def join(self, group: TaskGroup) -> None:
        """Become a member, and take part in `group`. Raises ConfigurationError; LeadershipLost, there too."""
        self.work.served = await until_ready(self._find_out, self.work.cluster.sync_seconds)
        group.start_soon(noted, self.ring.run, "ring of replicas")
        await self.ring.informer.wait_synced()
        try:
            self.ring.check()  # before it is a member, which others would wait for
        except AssignmentError as error:
            raise ConfigurationError(str(error)) from None
        await self.lease.join()
        group.start_soon(noted, self.lease.hold, "Lease of this member")
        group.start_soon(noted, self.coordinator.run, "assignment of buckets")
        group.start_soon(noted, self.member.run, "buckets of this member")
        group.start_soon(noted, self._lead, "work of the leader")
        for informer in self.work.informers():
            self.labels.watch(informer)
        group.start_soon(noted, self.labels.correct, "labels of children")
        self.work.cluster.runners.start(group)

    async def leave(self, seconds: float) -> None:
        """Hand over all buckets; after half of `seconds` those that are left are just closed."""
        if not self.member.state.idle:
            held = len(self.work.held.held)
            _log.info("leaves the ring: others take over what it holds", ring=self.sharding.place, held=held)
        with anyio.move_on_after(seconds / 2):
            await self.member.drain()
        with anyio.move_on_after(seconds / 2):
            await self.member.leave()
        if left := sum(1 for bucket in self.member.holdings if bucket != self.sharding.leading):
            _log.info("left the ring before others took over", ring=self.sharding.place, buckets=left)

    async def _find_out(self) -> bool:
        """Whether the server selects by shard."""
        primaries = [r for r, how in self.work.shared.items() if how is Sharing.UID]
        served = bool(primaries) and await shards_served(self.client.transport, self._path(primaries[0]))
        if primaries and not served:
            _log.info(
                "the server does not select by shard: objects are chosen here", ring=self.sharding.place
            )
        return served

    def _path(self, resource: APIResource) -> str:
        informer = self.work.cluster.cache.informer(resource)
        return resource.path(informer.namespace)

    def check_added(self, controller: Controller[Any]) -> None:
        """Raises ConfigurationError for a controller that changes which kinds are shared, and by what.

        Its replicas are added to one after the other: meanwhile some would follow a kind in another way.
        """
        shared = shared_kinds((*self.controllers, controller))
        owner = (controller.resource.group, controller.resource.kind)
        unlabelled = controller.sharded and controller.owns and owner not in self.labels.owners
        if shared != self.work.shared or unlabelled:
            raise ConfigurationError(
                f"controller {controller.name} would change which kinds the replicas of ring "
                f"{self.sharding.name} share: give it to Manager(...), or add it before the manager runs"
            )

    @property
    def works(self) -> bool:
        """Whether it holds a bucket, for certain."""
        return self.certainty.holds and not self.member.state.idle

    def status(self) -> ShardingStatus:
        return status_of(self.member, self.work)

    def holder(self, snapshot: Snapshot, sharded: bool) -> str:
        return holder_of(self.member, self.work, snapshot, sharded)

    async def _lead(self) -> None:
        """Have all children labelled before any bucket is held; then do what the leader alone does."""
        resources = [r for r, how in self.work.shared.items() if how is not Sharing.UID]
        await self.ring.changes.wait_until(lambda: self.ring.last is not None)
        for resource in resources:
            await self._label_all(resource)
        self.work.labelled.set()
        while True:
            await self.member.changes.wait_until(lambda: self.work.leads)
            async with anyio.create_task_group() as tasks:
                for resource in resources:
                    tasks.start_soon(self.labels.keep, resource)
                self.work.cluster.keep_definitions(tasks)
                await self.member.changes.wait_until(lambda: not self.work.leads)
                tasks.cancel_scope.cancel()

    async def _label_all(self, resource: APIResource) -> None:
        last = self.ring.last
        if last is None or str(resource) not in last.assignment.labelled:
            await self.labels.label_all(resource)
        said = dict.fromkeys((*self.member.base.labelled, str(resource)))
        self.member.say(evolve(self.member.base, labelled=tuple(said)))


def replica_of(
    options: ManagerOptions,
    sharding: Sharding,
    controllers: Sequence[Controller[Any]],
    cluster: ManagedCluster,
    transport: Transport,
    held: tuple[HeldBuckets, HeldBuckets],
    certainty: Certainty,
    metrics: HandOverMetrics | None = None,
    observer: BucketObserver | None = None,
) -> ShardedReplica:
    """The replica of a manager; `held` are its buckets of objects, and the one of the leader."""
    reach, clock = cluster.cache.reach, options["clock"]
    # Not paced: a member keeps its own pace, also after an outage, or its Lease would run out.
    direct = ReachTransport(transport, reach, paced=False)
    client = Client(direct, field_manager=options["name"], clock=clock)
    work = ShardedWork(sharding, cluster, shared_kinds(controllers), *held, observer=observer)
    owners = {(one.resource.group, one.resource.kind) for one in controllers if one.sharded}
    labels = ChildLabels(cluster.client, work.held.buckets, owners, followed_namespaces(options))
    terms = lease_terms(options)
    ring = Ring(sharding, transport, clock, reach, terms.duration)
    return ShardedReplica(client, sharding, terms, certainty, work, labels, ring, metrics, controllers)
