"""The incident of AIBrix 617, and how AIBrix 0.2.0 collected metrics. No controller imports this."""

__all__: list[str] = []
