"""Public building blocks: parts of an operator that are hard to get right, for any kind."""

from reconcile.blocks.copier import Copied, Copier, CopyFailed
from reconcile.blocks.copies import Content, Copy, Removal, Unusable, as_it_is
from reconcile.blocks.copy_plan import CopyStatus
from reconcile.blocks.replica_group import (
    GroupPlan,
    Host,
    HostRemoval,
    Marks,
    NewHost,
    NewReplica,
    ReplicaGroup,
    carry_out_group,
    host_of,
)
from reconcile.blocks.revisions import (
    HASH_LABEL,
    HashCollision,
    Revisions,
    carry_out_rollout,
    digest_of,
    hash_of,
    revisions_of,
)
from reconcile.blocks.rollout import Bounds, RevisionSet, Rollout, RolloutPlan, bounds_of, revision_set_of

__all__ = [
    "HASH_LABEL",
    "Bounds",
    "Content",
    "Copied",
    "Copier",
    "Copy",
    "CopyFailed",
    "CopyStatus",
    "GroupPlan",
    "HashCollision",
    "Host",
    "HostRemoval",
    "Marks",
    "NewHost",
    "NewReplica",
    "Removal",
    "ReplicaGroup",
    "RevisionSet",
    "Revisions",
    "Rollout",
    "RolloutPlan",
    "Unusable",
    "as_it_is",
    "bounds_of",
    "carry_out_group",
    "carry_out_rollout",
    "digest_of",
    "hash_of",
    "host_of",
    "revision_set_of",
    "revisions_of",
]
