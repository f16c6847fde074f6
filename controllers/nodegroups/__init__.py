"""Groups of nodes of Cluster API, sized by the pods that want to run."""

from .controller import Settings, controller, make_controller
from .models import NodeAutoscaler, NodeAutoscalerSpec, NodeAutoscalerStatus, ScaleDownSpec, definition

__all__ = [
    "NodeAutoscaler",
    "NodeAutoscalerSpec",
    "NodeAutoscalerStatus",
    "ScaleDownSpec",
    "Settings",
    "controller",
    "definition",
    "make_controller",
]
