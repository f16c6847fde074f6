"""Everything to test an operator with: a fake client, one pass, virtual time, late watches, faults."""

from reconcile.testing.clock import VirtualClock
from reconcile.testing.fake import FakeClient
from reconcile.testing.faults import (
    Crash,
    CrashAfter,
    CrashBefore,
    Cut,
    Delay,
    Drop,
    EndEarly,
    Expire,
    Fault,
    FaultPlan,
    LoseReply,
    Refuse,
    RefuseAsStale,
    SlowReply,
    Stall,
    When,
)
from reconcile.testing.faulty import FaultyTransport
from reconcile.testing.late import LateTransport
from reconcile.testing.loop import (
    DeadlockError,
    LivelockError,
    RealWorldError,
    SimulationError,
    TimeLimitError,
    VirtualTimeLoop,
    simulate,
)
from reconcile.testing.once import Pass, describe, run_once
from reconcile.testing.requests import RecordedRequest

__all__ = [
    "Crash",
    "CrashAfter",
    "CrashBefore",
    "Cut",
    "DeadlockError",
    "Delay",
    "Drop",
    "EndEarly",
    "Expire",
    "FakeClient",
    "Fault",
    "FaultPlan",
    "FaultyTransport",
    "LateTransport",
    "LivelockError",
    "LoseReply",
    "Pass",
    "RealWorldError",
    "RecordedRequest",
    "Refuse",
    "RefuseAsStale",
    "SimulationError",
    "SlowReply",
    "Stall",
    "TimeLimitError",
    "VirtualClock",
    "VirtualTimeLoop",
    "When",
    "describe",
    "run_once",
    "simulate",
]
