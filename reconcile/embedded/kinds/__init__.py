"""The built-in kinds, one file a group, and the kinds that definitions add."""

__all__: list[str] = []
