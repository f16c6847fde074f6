"""Which pools of nodes must grow, so that pods find a place."""

__all__: list[str] = []
