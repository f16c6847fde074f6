"""What the controllers of a cluster do, for the objects of this server."""

__all__: list[str] = []
