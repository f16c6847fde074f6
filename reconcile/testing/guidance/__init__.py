"""Which plans a fuzz tries: those that reached something new are kept, and changed into others."""

__all__: list[str] = []
