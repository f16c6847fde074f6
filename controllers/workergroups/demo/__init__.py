"""The incident of KubeRay 3286, and how KubeRay v1.3.0 planned. No controller imports this."""

__all__: list[str] = []
