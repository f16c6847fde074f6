"""Ordered steps of an object, whose progress is kept in its status."""

__all__: list[str] = []
