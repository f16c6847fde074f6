"""What may change or refuse a write."""

__all__: list[str] = []
