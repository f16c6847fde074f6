"""Every error that an operator may catch or raise; the documentation's index says what to do about each."""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand

if TYPE_CHECKING:
    from informers import (
        AlreadyExists,
        ApiError,
        BadRequest,
        CacheSyncFailed,
        Conflict,
        Expired,
        Forbidden,
        Interrupted,
        Invalid,
        NotCached,
        NotFound,
        OutcomeUnknown,
        OwnedByOther,
        PreconditionFailed,
        ServerError,
        ServerTimeout,
        StaleVersion,
        StatusError,
        TooManyRequests,
        TransportError,
        Unauthorized,
        Unreachable,
    )
    from reconcile.client.certainty import LeadershipLost
    from reconcile.client.guarded_writes import BucketNotHeld, NotLeading
    from reconcile.client.own_writes import CacheBehind
    from reconcile.controller.blocking import RunEnded
    from reconcile.controller.declared_writes import UndeclaredWrite
    from reconcile.controller.kopf_takeover import HalfCreated, UnwrittenDraft
    from reconcile.controller.run_result import ReconcileTimeout
    from reconcile.manager.installed_definitions import DefinitionMismatch
    from reconcile.manager.option_list import ConfigurationError
    from reconcile.manager.predecessor_check import PredecessorActive
    from reconcile.models import DecodeError
    from reconcile.ops.serving_addresses import ServeError
    from reconcile.owners import AlreadyOwned
    from reconcile.runs.run_request import TemporaryError, TerminalError
    from reconcile.storms.determinism import NondeterministicRun
    from reconcile.webhooks.definition_refused import DefinitionRefused

__all__ = [
    "AlreadyExists",
    "AlreadyOwned",
    "ApiError",
    "BadRequest",
    "BucketNotHeld",
    "CacheBehind",
    "CacheSyncFailed",
    "ConfigurationError",
    "Conflict",
    "DecodeError",
    "DefinitionMismatch",
    "DefinitionRefused",
    "Expired",
    "Forbidden",
    "HalfCreated",
    "Interrupted",
    "Invalid",
    "LeadershipLost",
    "NondeterministicRun",
    "NotCached",
    "NotFound",
    "NotLeading",
    "OutcomeUnknown",
    "OwnedByOther",
    "PreconditionFailed",
    "PredecessorActive",
    "ReconcileTimeout",
    "RunEnded",
    "ServeError",
    "ServerError",
    "ServerTimeout",
    "StaleVersion",
    "StatusError",
    "TemporaryError",
    "TerminalError",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "UndeclaredWrite",
    "Unreachable",
    "UnwrittenDraft",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
