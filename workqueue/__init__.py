"""A deduplicating, prioritised, rate-limited queue of keys. It does not know Kubernetes."""

from workqueue.backoff import Backoff, KeyBackoff
from workqueue.entries import Item
from workqueue.limiters import MaxOf, RateLimiter, TokenBucket
from workqueue.queue import QueueClosed, Work, WorkQueue
from workqueue.queue_status import QueueMetrics, QueueStatus

__all__ = [
    "Backoff",
    "Item",
    "KeyBackoff",
    "MaxOf",
    "QueueClosed",
    "QueueMetrics",
    "QueueStatus",
    "RateLimiter",
    "TokenBucket",
    "Work",
    "WorkQueue",
]
