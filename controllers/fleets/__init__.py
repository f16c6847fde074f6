"""Fleets of RayClusters, with the semantics of Deployments: a number of clusters, replaced step by step."""

from typing import Any

from reconcile import Controller

from .fleet import make_fleet_controller
from .models import RayClusterFleet, RayClusterReplicaSet, definition, set_definition
from .replica_set import make_set_controller

__all__ = [
    "RayClusterFleet",
    "RayClusterReplicaSet",
    "controllers",
    "definition",
    "make_controllers",
    "set_definition",
]


def make_controllers() -> tuple[Controller[Any], ...]:
    """The two controllers of fleets: of the fleets, and of their replica sets."""
    return make_fleet_controller(), make_set_controller()


controllers = make_controllers()
"""The two controllers that `reconcile run fleets` starts."""
