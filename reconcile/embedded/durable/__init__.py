"""The log on disk: a folder of segments, written in groups, folded in the background, read at the start."""

__all__: list[str] = []
