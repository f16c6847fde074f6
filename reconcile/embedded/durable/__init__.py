"""The log on disk: segments that are written in groups, compacted in the background, read at the start."""

__all__: list[str] = []
