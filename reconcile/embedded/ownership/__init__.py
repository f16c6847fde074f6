"""Ownership of fields: managedFields and server-side apply."""

__all__: list[str] = []
