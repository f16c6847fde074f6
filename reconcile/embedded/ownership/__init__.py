"""Field ownership: server-side apply, managed fields and strategic merge."""

__all__: list[str] = []
