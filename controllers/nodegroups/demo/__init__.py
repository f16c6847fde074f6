"""The incident of cluster-autoscaler 7872, with simulated machines. No controller imports this."""

__all__: list[str] = []
