"""What a simulated world is at a moment, and what follows from it: loops, obligations, all schedules."""

__all__: list[str] = []
