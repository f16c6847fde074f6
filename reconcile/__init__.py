"""A controller runtime for Kubernetes operators: what an operator imports.

Errors stand in `reconcile.errors`, what kinds are made of in `reconcile.models`. To read the code, begin with
`manager/manager.py`, `controller/declaration.py` and `controller/context.py`.
"""

from typing import TYPE_CHECKING

from reconcile._face import on_demand, require_own_floors

if TYPE_CHECKING:
    from informers import Clock, InformerOptions, Key, Snapshot, SystemClock, Transport
    from reconcile import conditions, errors, owners, predicates, replicas
    from reconcile.client.client import Client
    from reconcile.client.raw_client import RawClient
    from reconcile.client.request_limiter import RequestLimiter
    from reconcile.client.watch_events import WatchEvent
    from reconcile.controller.background_tasks import Background
    from reconcile.controller.context import Context
    from reconcile.controller.declaration import Cleanup, Controller, Reconciler, Watch, Write
    from reconcile.controller.predecessors import Predecessor
    from reconcile.controller.sources import SYNCED, Source, ticker
    from reconcile.controller.synchronous import SyncClient, SyncContext, SyncRawClient
    from reconcile.controller.tombstones import Deleted
    from reconcile.manager.leadership import LeaderElection
    from reconcile.manager.manager import Manager
    from reconcile.models import (
        UNSET,
        Condition,
        Intent,
        LabelSelector,
        Object,
        ObjectMeta,
        OwnerReference,
        Quantity,
        Unstructured,
        field,
        kind_of,
        resource,
    )
    from reconcile.ops.log_setup import configure_logging
    from reconcile.predicates import Predicate
    from reconcile.runs.run_request import Cause, Request, Result
    from reconcile.storms import Storms
    from workqueue import Backoff

__all__ = [
    "SYNCED",
    "UNSET",
    "Background",
    "Backoff",
    "Cause",
    "Cleanup",
    "Client",
    "Clock",
    "Condition",
    "Context",
    "Controller",
    "Deleted",
    "InformerOptions",
    "Intent",
    "Key",
    "LabelSelector",
    "LeaderElection",
    "Manager",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Predecessor",
    "Predicate",
    "Quantity",
    "RawClient",
    "Reconciler",
    "Request",
    "RequestLimiter",
    "Result",
    "Snapshot",
    "Source",
    "Storms",
    "SyncClient",
    "SyncContext",
    "SyncRawClient",
    "SystemClock",
    "Transport",
    "Unstructured",
    "Watch",
    "WatchEvent",
    "Write",
    "conditions",
    "configure_logging",
    "errors",
    "field",
    "kind_of",
    "owners",
    "predicates",
    "replicas",
    "resource",
    "ticker",
]

require_own_floors()

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
