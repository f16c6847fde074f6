"""Everything to test an operator with: a fake client, one pass, virtual time, late watches, faults."""

from typing import TYPE_CHECKING

from reconcile._face import on_demand

if TYPE_CHECKING:
    from reconcile.testing.acts import (
        Act,
        Apply,
        DelayGarbage,
        Delete,
        Edit,
        JumpClock,
        Kill,
        Recreate,
        Release,
        Touch,
        Wait,
    )
    from reconcile.testing.bounds import Unbounded, Weighed, assert_bounded
    from reconcile.testing.clock import VirtualClock
    from reconcile.testing.fake import FakeClient
    from reconcile.testing.faults import (
        Coalesce,
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
        Hold,
        LoseReply,
        Meanwhile,
        Refuse,
        RefuseAsStale,
        Repeat,
        SlowReply,
        Stall,
        TimeTravel,
        When,
    )
    from reconcile.testing.faulty import FaultyTransport
    from reconcile.testing.fixtures import Faults, ManagerOf, NodesOf
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
    from reconcile.testing.modes import Broken, Report, fuzz, replay, seeds, sweep
    from reconcile.testing.once import Pass, describe, run_once
    from reconcile.testing.places import ListeningServer, VirtualCluster
    from reconcile.testing.pod_pages import PodPages
    from reconcile.testing.purity import assert_deterministic
    from reconcile.testing.requests import RecordedRequest
    from reconcile.testing.running import Run
    from reconcile.testing.scenario import FREE_INVARIANTS, Scenario, Violation
    from reconcile.testing.telling import pytest_parameter, story
    from reconcile.testing.waiting import NoLonger, NotYet, consistently, eventually
    from reconcile.testing.world import World

__all__ = [
    "FREE_INVARIANTS",
    "Act",
    "Apply",
    "Broken",
    "Coalesce",
    "Crash",
    "CrashAfter",
    "CrashBefore",
    "Cut",
    "DeadlockError",
    "Delay",
    "DelayGarbage",
    "Delete",
    "Drop",
    "Edit",
    "EndEarly",
    "Expire",
    "FakeClient",
    "Fault",
    "FaultPlan",
    "Faults",
    "FaultyTransport",
    "Hold",
    "JumpClock",
    "Kill",
    "LateTransport",
    "ListeningServer",
    "LivelockError",
    "LoseReply",
    "ManagerOf",
    "Meanwhile",
    "NoLonger",
    "NodesOf",
    "NotYet",
    "Pass",
    "PodPages",
    "RealWorldError",
    "RecordedRequest",
    "Recreate",
    "Refuse",
    "RefuseAsStale",
    "Release",
    "Repeat",
    "Report",
    "Run",
    "Scenario",
    "SimulationError",
    "SlowReply",
    "Stall",
    "TimeLimitError",
    "TimeTravel",
    "Touch",
    "Unbounded",
    "Violation",
    "VirtualClock",
    "VirtualCluster",
    "VirtualTimeLoop",
    "Wait",
    "Weighed",
    "When",
    "World",
    "assert_bounded",
    "assert_deterministic",
    "consistently",
    "describe",
    "eventually",
    "fuzz",
    "pytest_parameter",
    "replay",
    "run_once",
    "seeds",
    "simulate",
    "story",
    "sweep",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
