"""How an operator reads and writes: typed, through the cache where there is one."""

__all__: list[str] = []
