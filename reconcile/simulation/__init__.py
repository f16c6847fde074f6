"""Nodes and workloads without machines, and incidents played again."""

from reconcile.simulation.incidents import Incident, Logic, Report, Stage, Verdict, bundled_incidents
from reconcile.simulation.nodes import (
    BEHAVIOUR,
    STOP_SECONDS,
    Answers,
    Delays,
    SimulatedNodes,
    Step,
    next_step,
)
from reconcile.simulation.observer import Change, Observer, observe
from reconcile.simulation.workloads import SimulatedWorkloads

__all__ = [
    "BEHAVIOUR",
    "STOP_SECONDS",
    "Answers",
    "Change",
    "Delays",
    "Incident",
    "Logic",
    "Observer",
    "Report",
    "SimulatedNodes",
    "SimulatedWorkloads",
    "Stage",
    "Step",
    "Verdict",
    "bundled_incidents",
    "next_step",
    "observe",
]
