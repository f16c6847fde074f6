"""Ready-made controllers, written only against the public names of `reconcile`.

Each package here serves one custom resource. Its decisions (`plan.py`) are functions from values
to values; its reconciler fills their inputs from the cache and carries out what they say.
"""

OPERATOR = "reconcile-runtime.dev"
"""The domain under which they stand on objects: their finalizers and field managers begin with it."""

__all__ = ("OPERATOR",)
