"""Which resources replicas share, and the share that a replica follows of each. Pure.

A primary object is found by the bucket of its own uid, which servers can select (KEP-5866). A child is found
by the label with the bucket of the object whose run made it. What is both, as a kind that one controller
keeps and another owns, is followed whole and chosen here. Kinds that controllers look up, and all those of a
controller that needs all objects, are not shared.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

from informers import APIResource, Snapshot
from informers.informer_share import Share
from reconcile.client.buckets import BUCKET_LABEL, Buckets
from reconcile.controller.declaration import Controller
from reconcile.models import Object, kind_of


class Sharing(Enum):
    """By what the objects of a resource are shared."""

    UID = "uid"
    LABEL = "label"
    BOTH = "both"


def shared_kinds(controllers: Iterable[Controller[Any]]) -> Mapping[APIResource, Sharing]:
    """The resources that are shared; all others are followed whole."""
    whole: set[APIResource] = set()
    primaries: set[APIResource] = set()
    owned: set[APIResource] = set()
    for controller in controllers:
        if not controller.sharded:
            whole.update(_resources(controller.kinds))
            continue
        primaries.add(controller.resource)
        owned.update(_resources(controller.owns))
        whole.update(_resources(watch.kind for watch in controller.watches), _resources(controller.reads))
    shared = dict.fromkeys(primaries, Sharing.UID)
    for resource in owned:
        shared[resource] = Sharing.BOTH if resource in primaries else Sharing.LABEL
    return {resource: sharing for resource, sharing in shared.items() if resource not in whole}


def share_of(sharing: Sharing, buckets: Buckets, followed: Collection[int]) -> Share:
    """What a replica follows of a resource. Servers without shards ignore their selector."""
    chosen = frozenset(bucket for bucket in followed if bucket < buckets.count)
    labels = frozenset(map(buckets.label, chosen))

    def by_uid(snapshot: Snapshot) -> bool:
        return buckets.of(snapshot.uid) in chosen

    def by_label(snapshot: Snapshot) -> bool:
        return snapshot.labels.get(BUCKET_LABEL) in labels

    match sharing:
        case Sharing.UID:
            return Share(keeps=by_uid, shard=buckets.shard_selector(chosen))
        case Sharing.LABEL:
            return Share(keeps=by_label, labels=buckets.label_selector(chosen))
        case Sharing.BOTH:
            return Share(keeps=lambda snapshot: by_uid(snapshot) or by_label(snapshot))


def is_filtered(sharing: Sharing, served: bool) -> bool:
    """Whether the server sends only what a replica follows; `served`: it selects by shard."""
    return sharing is Sharing.LABEL or (sharing is Sharing.UID and served)


def _resources(kinds: Iterable[type[Object]]) -> Iterable[APIResource]:
    return [kind_of(kind).resource for kind in kinds]
