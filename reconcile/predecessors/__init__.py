"""What other frameworks for operators leave on objects: facts about it, as pure functions on their JSON.

- kopf: `kopf_traces` (finalizer, annotations, status, fields), `kopf_progress` (how far its handlers are),
  `kopf_peers` (which of its operators are alive).
"""

from reconcile.predecessors.kopf_peers import (
    FREEZE_PRIORITY,
    PEERINGS,
    Peer,
    entry_of,
    pausing,
    peers_in,
)
from reconcile.predecessors.kopf_progress import HandlerProgress
from reconcile.predecessors.kopf_traces import (
    FIELD_MANAGERS,
    LAST_HANDLED,
    KopfTraces,
    ObjectTraces,
    last_handled_copy,
    prefixes_in_use,
    release,
    removal,
    results_in,
    status_removal,
    traces_on,
)

__all__ = [
    "FIELD_MANAGERS",
    "FREEZE_PRIORITY",
    "LAST_HANDLED",
    "PEERINGS",
    "HandlerProgress",
    "KopfTraces",
    "ObjectTraces",
    "Peer",
    "entry_of",
    "last_handled_copy",
    "pausing",
    "peers_in",
    "prefixes_in_use",
    "release",
    "removal",
    "results_in",
    "status_removal",
    "traces_on",
]
