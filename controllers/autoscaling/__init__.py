"""Pod autoscalers of AIBrix: `PodAutoscaler`, by Knative's rule, by ratio, or by the cluster's HPA."""

from .controller import controller, make_controller
from .models import PodAutoscaler, PodAutoscalerSpec, PodAutoscalerStatus, definition

__all__ = [
    "PodAutoscaler",
    "PodAutoscalerSpec",
    "PodAutoscalerStatus",
    "controller",
    "definition",
    "make_controller",
]
