"""Registry secrets of `KuberoPipeline`, copied into the namespace of each phase."""

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
