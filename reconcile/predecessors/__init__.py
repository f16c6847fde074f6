"""What other frameworks for operators leave on objects: facts about it, as pure functions on their JSON.

- kopf: `kopf_names` (how an operator is named), `kopf_traces` (finalizer, annotations, status, fields),
  `kopf_progress` (how far its handlers are), `kopf_peers` (which of its operators are alive).
"""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand

if TYPE_CHECKING:
    from reconcile.predecessors.kopf_names import FIELD_MANAGERS, LAST_HANDLED, KopfTraces
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

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
