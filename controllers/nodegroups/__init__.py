"""Groups of nodes of Cluster API, sized for the pods that have to run."""

from .controller import controller, make_controller
from .models import NodeAutoscaler, NodeAutoscalerSpec, NodeAutoscalerStatus, ScaleDownSpec, definition
from .sizing_run import NodeGroupSettings

__all__ = [
    "NodeAutoscaler",
    "NodeAutoscalerSpec",
    "NodeAutoscalerStatus",
    "NodeGroupSettings",
    "ScaleDownSpec",
    "controller",
    "definition",
    "make_controller",
]
