"""Nodes and workloads without machines, and incidents played again."""

from reconcile.simulation.incidents import Incident, IncidentStage, IncidentVerdict, Logic, bundled_incidents
from reconcile.simulation.observer import ObservedChange, Observer, observe
from reconcile.simulation.simulated_nodes import BEHAVIOUR, STOP_SECONDS, Delays, SimulatedNodes
from reconcile.simulation.workloads import SimulatedWorkloads

__all__ = [
    "BEHAVIOUR",
    "STOP_SECONDS",
    "Delays",
    "Incident",
    "IncidentStage",
    "IncidentVerdict",
    "Logic",
    "ObservedChange",
    "Observer",
    "SimulatedNodes",
    "SimulatedWorkloads",
    "bundled_incidents",
    "observe",
]
