"""A controller runtime for Kubernetes operators: all that an operator imports.

Read on in `manager`, `controller` and `context`, in that order.
"""

from typing import TYPE_CHECKING

from reconcile._lazy import on_demand
from reconcile._shadowed import require_own_floors

if TYPE_CHECKING:
    from informers import (
        AlreadyExists,
        ApiError,
        APIResource,
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
        NotCached,
        NotFound,
        OutcomeUnknown,
        OwnedByOther,
        PreconditionFailed,
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
    from reconcile.client.client import Client
    from reconcile.client.limits import RateLimiter
    from reconcile.client.own_writes import CacheBehind
    from reconcile.client.reader import WatchEvent
    from reconcile.controller.background_tasks import Background
    from reconcile.controller.blocking import RunEnded
    from reconcile.controller.context import Context
    from reconcile.controller.declaration import Cleanup, Controller, Reconciler, Watch, Write
    from reconcile.controller.declared_writes import UndeclaredWrite
    from reconcile.controller.predecessors import Predecessor
    from reconcile.controller.reconcile_run import ReconcileTimeout
    from reconcile.controller.sources import SYNCED, Source, ticker
    from reconcile.controller.synchronous import SyncClient, SyncContext
    from reconcile.controller.tombstones import Deleted
    from reconcile.manager.installed_definitions import DefinitionMismatch
    from reconcile.manager.leadership import LeaderElection, LeadershipLost, LeaseTerms, NotLeading
    from reconcile.manager.manager import Manager
    from reconcile.manager.option_list import ConfigurationError
    from reconcile.manager.predecessor_check import PredecessorActive, TakeoverPolicy
    from reconcile.models import (
        UNSET,
        Column,
        Condition,
        DecodeError,
        ExtraFields,
        FieldError,
        Intent,
        LabelSelector,
        MicroTime,
        Object,
        ObjectMeta,
        OwnerReference,
        Quantity,
        Rule,
        Scale,
        Schema,
        UnsetType,
        Unstructured,
        definition_of,
        encode,
        field,
        kind_of,
        resource,
        thaw,
        unstructured,
    )
    from reconcile.ops.log_setup import configure_logging
    from reconcile.ops.page_server import ServeError
    from reconcile.owners import AlreadyOwned
    from reconcile.predicates import Predicate
    from reconcile.runs.requests import Cause, Request, Result, TerminalError
    from reconcile.storms import Storms
    from reconcile.storms.determinism import NondeterministicRun
    from workqueue import Backoff

__all__ = [
    "SYNCED",
    "UNSET",
    "APIResource",
    "AlreadyExists",
    "AlreadyOwned",
    "ApiError",
    "Background",
    "Backoff",
    "BadRequest",
    "CacheBehind",
    "CacheSyncFailed",
    "Cause",
    "Cleanup",
    "Client",
    "Clock",
    "Column",
    "Condition",
    "ConfigurationError",
    "Conflict",
    "Context",
    "Controller",
    "DecodeError",
    "DefinitionMismatch",
    "Deleted",
    "Expired",
    "ExtraFields",
    "FieldError",
    "Forbidden",
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
    "NondeterministicRun",
    "NotCached",
    "NotFound",
    "NotLeading",
    "Object",
    "ObjectMeta",
    "OutcomeUnknown",
    "OwnedByOther",
    "OwnerReference",
    "PreconditionFailed",
    "Predecessor",
    "PredecessorActive",
    "Predicate",
    "Quantity",
    "RateLimiter",
    "ReconcileTimeout",
    "Reconciler",
    "Request",
    "Result",
    "Rule",
    "RunEnded",
    "Scale",
    "Schema",
    "ServeError",
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
    "TakeoverPolicy",
    "TerminalError",
    "TooManyRequests",
    "Transport",
    "TransportError",
    "Unauthorized",
    "UndeclaredWrite",
    "Unreachable",
    "UnsetType",
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
