"""Bytes from list and watch in; snapshots, indexes and deltas out. Owns the way to the API server."""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand

if TYPE_CHECKING:
    from informers.api_errors import (
        AlreadyExists,
        ApiError,
        BadRequest,
        Conflict,
        Expired,
        Forbidden,
        Invalid,
        MalformedAnswer,
        NotFound,
        OutcomeUnknown,
        OwnedByOther,
        PreconditionFailed,
        ServerError,
        ServerTimeout,
        StaleVersion,
        StatusCause,
        StatusError,
        TooManyRequests,
        TransportError,
        Unauthorized,
        Unreachable,
        error_from_response,
        error_from_status,
        is_unreachable,
    )
    from informers.cache import Cache, CacheSyncFailed, NotCached
    from informers.cancellation import Interrupted
    from informers.clock import Clock, SystemClock
    from informers.handlers import AsyncHandler, Handler, Registration
    from informers.informer import Informer
    from informers.informer_options import InformerOptions
    from informers.informer_status import InformerStatus
    from informers.logs import get_logger
    from informers.reachability import Reachability, ReachStatus, ReachTransport
    from informers.resource import APIResource, Key
    from informers.snapshot import Snapshot, SnapshotOwner
    from informers.store import Delta, Store
    from informers.transport import HttpRequest, Response, StreamingResponse, Transport

__all__ = [
    "APIResource",
    "AlreadyExists",
    "ApiError",
    "AsyncHandler",
    "BadRequest",
    "Cache",
    "CacheSyncFailed",
    "Clock",
    "Conflict",
    "Delta",
    "Expired",
    "Forbidden",
    "Handler",
    "HttpRequest",
    "Informer",
    "InformerOptions",
    "InformerStatus",
    "Interrupted",
    "Invalid",
    "Key",
    "MalformedAnswer",
    "NotCached",
    "NotFound",
    "OutcomeUnknown",
    "OwnedByOther",
    "PreconditionFailed",
    "ReachStatus",
    "ReachTransport",
    "Reachability",
    "Registration",
    "Response",
    "ServerError",
    "ServerTimeout",
    "Snapshot",
    "SnapshotOwner",
    "StaleVersion",
    "StatusCause",
    "StatusError",
    "Store",
    "StreamingResponse",
    "SystemClock",
    "TooManyRequests",
    "Transport",
    "TransportError",
    "Unauthorized",
    "Unreachable",
    "error_from_response",
    "error_from_status",
    "get_logger",
    "is_unreachable",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
