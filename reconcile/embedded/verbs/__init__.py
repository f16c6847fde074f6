"""What a request does: read, write, delete, watch."""

__all__: list[str] = []
