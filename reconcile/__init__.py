"""A controller runtime for Kubernetes operators: what an operator imports.

Errors stand in `reconcile.errors`, what kinds are made of in `reconcile.models`. To read the code, begin with
`manager/manager.py`, `controller/declaration.py` and `controller/context.py`.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from informers import Clock, HttpRequest, InformerOptions, Key, Snapshot, SystemClock, Transport
    from reconcile.client.client import Client
    from reconcile.client.object_indexes import Index
    from reconcile.client.raw_client import RawClient
    from reconcile.client.request_limiter import RequestLimiter
    from reconcile.client.watch_events import WatchEvent
    from reconcile.controller.context import Context
    from reconcile.controller.declaration import Cleanup, Controller, Predecessor, Reconciler, Watch, Write
    from reconcile.controller.object_background import Background
    from reconcile.controller.sources import SYNCED, Source, ticker
    from reconcile.controller.synchronous import SyncClient, SyncContext, SyncRawClient
    from reconcile.controller.tombstones import Deleted
    from reconcile.manager.leader_election import LeaderElection
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
    "HttpRequest",
    "Index",
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


def _require_own_floors() -> None:
    """Raise ImportError where another package stands in the place of `workqueue` or `informers`."""
    home = Path(__file__).resolve().parent.parent
    for name in ("workqueue", "informers"):
        spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if found != home / name / "__init__.py":
            raise ImportError(
                f"reconcile-runtime has a package {name!r} of its own, and "
                f"{found or 'nothing'} is found in its place: rename yours, or install reconcile-runtime anew"
            )


_require_own_floors()

if not TYPE_CHECKING:
    # Only now is it sure that this is the `informers` that came with this package.
    from informers.lazy_face import on_demand

    __getattr__, __dir__ = on_demand(__name__)
