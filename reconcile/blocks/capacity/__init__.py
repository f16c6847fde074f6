"""Which pools of nodes have to grow, so that pods find a place."""

__all__: list[str] = []
