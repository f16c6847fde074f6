"""The incident of cluster-autoscaler 7872, how a group grew before its fix, and simulated machines.

No controller imports this.
"""

__all__: list[str] = []
