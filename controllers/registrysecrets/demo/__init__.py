"""The incident of Kubero 420, in two acts, and how Kubero 0.2.1 copied. No controller imports this."""

__all__: list[str] = []
