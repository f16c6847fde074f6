"""A controller runtime for Kubernetes operators: all that an operator imports.

Read on in `manager`, `controller` and `context`, in that order.
"""

from typing import TYPE_CHECKING

from reconcile.faces import on_demand
from reconcile.neighbours import require_own_floors

if TYPE_CHECKING:
    from informers import (
        AlreadyExists,
        ApiError,
        BadRequest,
        CacheSyncFailed,
        Clock,
        Conflict,
        Expired,
        Forbidden,
        InformerOptions,
        Interrupted,
        Invalid,
        Key,
        NotDeclared,
        NotFound,
        OutcomeUnknown,
        OwnedByOther,
        PreconditionFailed,
        Resource,
        ServerError,
        ServerTimeout,
        Snapshot,
        StaleVersion,
        StatusError,
        SystemClock,
        TooManyRequests,
        Transport,
        TransportError,
        Unauthorized,
        Unreachable,
    )
    from reconcile import conditions, owners, predicates, replicas
    from reconcile.background import Background
    from reconcile.blocking import RunOver
    from reconcile.caution import Caution, OriginalAtWork
    from reconcile.client import Client
    from reconcile.configuration import ConfigurationError
    from reconcile.consistency import CacheBehind
    from reconcile.context import Context
    from reconcile.controller import Cleanup, Controller, Reconciler, Watch, Write
    from reconcile.declarations import UndeclaredWrite
    from reconcile.departures import Gone
    from reconcile.installed import NotAsDeclared
    from reconcile.leadership import LeaderElection, LeadershipLost, LeaseTerms, NotLeading
    from reconcile.limiter import RateLimiter
    from reconcile.logs import configure_logging
    from reconcile.manager import Manager
    from reconcile.models import (
        UNSET,
        Column,
        Condition,
        DoesNotFit,
        Fault,
        Intent,
        LabelSelector,
        MicroTime,
        Object,
        ObjectMeta,
        Open,
        OwnerReference,
        Quantity,
        Rule,
        Scale,
        Schema,
        Unset,
        Unstructured,
        definition_of,
        encode,
        field,
        kind_of,
        resource,
        thaw,
        unstructured,
    )
    from reconcile.originals import Original
    from reconcile.owners import AlreadyOwned
    from reconcile.passes import ReconcileTimeout
    from reconcile.predicates import Predicate
    from reconcile.reading import WatchEvent
    from reconcile.requests import Cause, Request, Result, TerminalError
    from reconcile.serving import CannotServe
    from reconcile.sources import SYNCED, Source, ticker
    from reconcile.storms import Storms
    from reconcile.storms.purity import Impure
    from reconcile.synchronous import SyncClient, SyncContext
    from workqueue import Backoff

__all__ = [
    "SYNCED",
    "UNSET",
    "AlreadyExists",
    "AlreadyOwned",
    "ApiError",
    "Background",
    "Backoff",
    "BadRequest",
    "CacheBehind",
    "CacheSyncFailed",
    "CannotServe",
    "Cause",
    "Caution",
    "Cleanup",
    "Client",
    "Clock",
    "Column",
    "Condition",
    "ConfigurationError",
    "Conflict",
    "Context",
    "Controller",
    "DoesNotFit",
    "Expired",
    "Fault",
    "Forbidden",
    "Gone",
    "Impure",
    "InformerOptions",
    "Intent",
    "Interrupted",
    "Invalid",
    "Key",
    "LabelSelector",
    "LeaderElection",
    "LeadershipLost",
    "LeaseTerms",
    "Manager",
    "MicroTime",
    "NotAsDeclared",
    "NotDeclared",
    "NotFound",
    "NotLeading",
    "Object",
    "ObjectMeta",
    "Open",
    "Original",
    "OriginalAtWork",
    "OutcomeUnknown",
    "OwnedByOther",
    "OwnerReference",
    "PreconditionFailed",
    "Predicate",
    "Quantity",
    "RateLimiter",
    "ReconcileTimeout",
    "Reconciler",
    "Request",
    "Resource",
    "Result",
    "Rule",
    "RunOver",
    "Scale",
    "Schema",
    "ServerError",
    "ServerTimeout",
    "Snapshot",
    "Source",
    "StaleVersion",
    "StatusError",
    "Storms",
    "SyncClient",
    "SyncContext",
    "SystemClock",
    "TerminalError",
    "TooManyRequests",
    "Transport",
    "TransportError",
    "Unauthorized",
    "UndeclaredWrite",
    "Unreachable",
    "Unset",
    "Unstructured",
    "Watch",
    "WatchEvent",
    "Write",
    "conditions",
    "configure_logging",
    "definition_of",
    "encode",
    "field",
    "kind_of",
    "owners",
    "predicates",
    "replicas",
    "resource",
    "thaw",
    "ticker",
    "unstructured",
]

require_own_floors()

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__)
