"""Which key is worked on next: a deduplicating, prioritised, rate-limited queue. Knows no Kubernetes."""

from workqueue.backoff import Backoff, KeyBackoff
from workqueue.queue import Item, QueueClosed, QueueStatus, Work, WorkQueue

__all__ = ["Backoff", "Item", "KeyBackoff", "QueueClosed", "QueueStatus", "Work", "WorkQueue"]
