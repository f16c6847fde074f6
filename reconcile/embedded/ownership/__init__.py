"""Field ownership: server-side apply and managed fields."""

__all__: list[str] = []
