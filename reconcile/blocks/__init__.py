"""Public building blocks: parts of an operator that are hard to get right, for any kind."""

from reconcile.blocks.autoscaler import Autoscaler, Policy, Probe, Scaled, Scaling, Target, always_ready
from reconcile.blocks.autoscaler_deciding import Behaviour
from reconcile.blocks.autoscaler_limits import ReplicaBounds, Schedule, ZeroRules, active_schedule
from reconcile.blocks.autoscaler_pages import Fetch, FetchFailed, HttpFetch, read_series
from reconcile.blocks.autoscaler_rules import Rates
from reconcile.blocks.autoscaler_scrape import ScrapeLimits
from reconcile.blocks.autoscaler_sources import (
    CustomMetric,
    ExternalMetric,
    PageMetric,
    PodMetric,
    ResourceMetric,
    Sight,
    Source,
)
from reconcile.blocks.autoscaler_units import (
    Missing,
    PerPodAverage,
    Reading,
    Samples,
    Sum,
    milli_of,
    milliseconds_of,
)
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
    "Autoscaler",
    "Behaviour",
    "Bounds",
    "Content",
    "Copied",
    "Copier",
    "Copy",
    "CopyFailed",
    "CopyStatus",
    "CustomMetric",
    "ExternalMetric",
    "Fetch",
    "FetchFailed",
    "GroupPlan",
    "HashCollision",
    "Host",
    "HostRemoval",
    "HttpFetch",
    "Marks",
    "Missing",
    "NewHost",
    "NewReplica",
    "PageMetric",
    "PerPodAverage",
    "PodMetric",
    "Policy",
    "Probe",
    "Rates",
    "Reading",
    "Removal",
    "ReplicaBounds",
    "ReplicaGroup",
    "ResourceMetric",
    "RevisionSet",
    "Revisions",
    "Rollout",
    "RolloutPlan",
    "Samples",
    "Scaled",
    "Scaling",
    "Schedule",
    "ScrapeLimits",
    "Sight",
    "Source",
    "Sum",
    "Target",
    "Unusable",
    "ZeroRules",
    "active_schedule",
    "always_ready",
    "as_it_is",
    "bounds_of",
    "carry_out_group",
    "carry_out_rollout",
    "digest_of",
    "hash_of",
    "host_of",
    "milli_of",
    "milliseconds_of",
    "read_series",
    "revision_set_of",
    "revisions_of",
]
