"""Which plans a fuzz tries: those that held are kept, and changed into others."""

__all__: list[str] = []
