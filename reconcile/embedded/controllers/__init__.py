"""The work of a cluster's controllers, for the objects of this server."""

__all__: list[str] = []
