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

__all__ = [
    "Content",
    "Copied",
    "Copier",
    "Copy",
    "CopyFailed",
    "CopyStatus",
    "GroupPlan",
    "Host",
    "HostRemoval",
    "Marks",
    "NewHost",
    "NewReplica",
    "Removal",
    "ReplicaGroup",
    "Unusable",
    "as_it_is",
    "carry_out_group",
    "host_of",
]
