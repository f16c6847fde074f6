"""Registry secrets of `KuberoPipeline`: copied into each phase's namespace, and then left in peace."""

from .controller import controller, make_controller
from .models import KuberoPipeline, KuberoPipelineSpec, KuberoPipelineStatus, definition

__all__ = [
    "KuberoPipeline",
    "KuberoPipelineSpec",
    "KuberoPipelineStatus",
    "controller",
    "definition",
    "make_controller",
]
