"""Worker groups of `ray.io/v1 RayCluster`: exactly the desired number of pods, each deleted once."""

from .controller import WorkerGroupSettings, controller, make_controller
from .models import RayCluster, RayClusterSpec, RayClusterStatus, definition

__all__ = [
    "RayCluster",
    "RayClusterSpec",
    "RayClusterStatus",
    "WorkerGroupSettings",
    "controller",
    "definition",
    "make_controller",
]
