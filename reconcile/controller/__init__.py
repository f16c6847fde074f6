"""One controller: its declaration, what wakes it, and one run after the other."""

__all__: list[str] = []
