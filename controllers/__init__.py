"""Ready-made controllers, written only against the public names of `reconcile`.

Decisions are pure functions; a reconciler reads their inputs from the cache and carries out the results.
"""

from reconcile import Predecessor

OPERATOR = "reconcile-runtime.dev"
"""The domain that the finalizers and field managers of these controllers begin with."""

AIBRIX = Predecessor(
    "AIBrix",
    leases=("aibrix-controller-manager",),
    deployments=("aibrix-controller-manager",),
    images=("aibrix/controller-manager",),
)
"""The operator that autoscaling and fleets replace."""

__all__ = ("AIBRIX", "OPERATOR")
