"""Everything to test an operator with: a fake client, single runs, virtual time, late watches, faults."""

from typing import TYPE_CHECKING

from informers.lazy_face import on_demand

if TYPE_CHECKING:
    from reconcile.testing.bounds import assert_bounded
    from reconcile.testing.cluster_places import ListeningServer, VirtualCluster
    from reconcile.testing.determinism_check import assert_deterministic
    from reconcile.testing.exploration.exhaustive_search import ExploreReport, NotRepeatable, explore
    from reconcile.testing.exploration.obligations import (
        ObjectPredicate,
        Trigger,
        always_holds,
        becomes,
        condition,
        created,
        deleted,
        deletion_asked,
        eventually_holds,
        leads_to,
        ready_or_failed,
        spec_changed,
    )
    from reconcile.testing.fake_client import FakeClient
    from reconcile.testing.fake_services import (
        AnswerLost,
        FakeService,
        Operations,
        RateLimit,
        RecordedExchange,
        RecordedService,
        Resources,
        ServiceAnswer,
        ServiceCall,
        ServiceCollection,
        ServiceRecorder,
        ServiceRefusal,
        ServiceUnreachable,
        record_service,
    )
    from reconcile.testing.faults import (
        Choice,
        Coalesce,
        Crash,
        CrashAfter,
        CrashBefore,
        Cut,
        Delay,
        Drop,
        EndEarly,
        Expire,
        FailOperation,
        Fault,
        FaultPlan,
        Hold,
        LoseReply,
        Meanwhile,
        PartOfBatch,
        Pause,
        Refuse,
        RefuseAsStale,
        Repeat,
        SlowReply,
        StaleRead,
        Stall,
        TimeTravel,
        When,
    )
    from reconcile.testing.faulty_transport import FaultyTransport
    from reconcile.testing.fixture_handles import FaultControl, ManagerRunner, NodesRunner
    from reconcile.testing.kind_laws import laws
    from reconcile.testing.kube_apiserver import KubeApiserver, KubeApiserverFailed, running_kube_apiserver
    from reconcile.testing.late_watches import LateTransport
    from reconcile.testing.pod_pages import PodPages
    from reconcile.testing.polling import consistently, eventually
    from reconcile.testing.scenario import Scenario
    from reconcile.testing.scenario_acts import (
        Apply,
        CutOff,
        DelayGarbage,
        Delete,
        Edit,
        Freeze,
        JumpClock,
        Kill,
        Recreate,
        Release,
        ScenarioAct,
        Stop,
        Touch,
        Wait,
    )
    from reconcile.testing.scenario_modes import Broken, ScenarioReport, fuzz, replay, seeds, sweep
    from reconcile.testing.scenario_runner import ScenarioRun
    from reconcile.testing.sealed_loop import RealWorldError, SimulationError
    from reconcile.testing.single_run import RunReport, run_once
    from reconcile.testing.spec_transitions.transition_report import BrokenTransition, TransitionsReport
    from reconcile.testing.spec_transitions.transitions_mode import transitions
    from reconcile.testing.upgrade_matrix import UpgradeReport, upgrade
    from reconcile.testing.virtual_clock import VirtualClock
    from reconcile.testing.virtual_time import VirtualTimeLoop, simulate
    from reconcile.testing.world import World

__all__ = [
    "AnswerLost",
    "Apply",
    "Broken",
    "BrokenTransition",
    "Choice",
    "Coalesce",
    "Crash",
    "CrashAfter",
    "CrashBefore",
    "Cut",
    "CutOff",
    "Delay",
    "DelayGarbage",
    "Delete",
    "Drop",
    "Edit",
    "EndEarly",
    "Expire",
    "ExploreReport",
    "FailOperation",
    "FakeClient",
    "FakeService",
    "Fault",
    "FaultControl",
    "FaultPlan",
    "FaultyTransport",
    "Freeze",
    "Hold",
    "JumpClock",
    "Kill",
    "KubeApiserver",
    "KubeApiserverFailed",
    "LateTransport",
    "ListeningServer",
    "LoseReply",
    "ManagerRunner",
    "Meanwhile",
    "NodesRunner",
    "NotRepeatable",
    "ObjectPredicate",
    "Operations",
    "PartOfBatch",
    "Pause",
    "PodPages",
    "RateLimit",
    "RealWorldError",
    "RecordedExchange",
    "RecordedService",
    "Recreate",
    "Refuse",
    "RefuseAsStale",
    "Release",
    "Repeat",
    "Resources",
    "RunReport",
    "Scenario",
    "ScenarioAct",
    "ScenarioReport",
    "ScenarioRun",
    "ServiceAnswer",
    "ServiceCall",
    "ServiceCollection",
    "ServiceRecorder",
    "ServiceRefusal",
    "ServiceUnreachable",
    "SimulationError",
    "SlowReply",
    "StaleRead",
    "Stall",
    "Stop",
    "TimeTravel",
    "Touch",
    "TransitionsReport",
    "Trigger",
    "UpgradeReport",
    "VirtualClock",
    "VirtualCluster",
    "VirtualTimeLoop",
    "Wait",
    "When",
    "World",
    "always_holds",
    "assert_bounded",
    "assert_deterministic",
    "becomes",
    "condition",
    "consistently",
    "created",
    "deleted",
    "deletion_asked",
    "eventually",
    "eventually_holds",
    "explore",
    "fuzz",
    "laws",
    "leads_to",
    "ready_or_failed",
    "record_service",
    "replay",
    "run_once",
    "running_kube_apiserver",
    "seeds",
    "simulate",
    "spec_changed",
    "sweep",
    "transitions",
    "upgrade",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_demand(__name__)
