"""Ready-made controllers, written only against the public names of `reconcile`.

Each package here serves one custom resource. Its decisions are functions from values
to values; its reconciler fills their inputs from the cache and carries out what they say.
"""

from reconcile import Predecessor

OPERATOR = "reconcile-runtime.dev"
"""The domain under which they stand on objects: their finalizers and field managers begin with it."""

AIBRIX = Predecessor(
    "AIBrix",
    leases=("aibrix-controller-manager",),
    deployments=("aibrix-controller-manager",),
    images=("aibrix/controller-manager",),
)
"""The operator that autoscaling and fleets take over from."""

__all__ = ("AIBRIX", "OPERATOR")
