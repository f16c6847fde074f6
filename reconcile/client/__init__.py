"""Typed reads and writes, from the cache where there is one, consistent with the key's own writes."""

__all__: list[str] = []
