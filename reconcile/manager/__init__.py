"""Running controllers: connecting, leading, starting and stopping in order."""

__all__: list[str] = []
