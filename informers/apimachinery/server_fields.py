"""The metadata that a server sets, whatever a client sends."""

from typing import Final

SET_BY_SERVER: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
"""Fields of `metadata` that a server sets, and that the manifest of a new object leaves out."""

SET_BY_EVERY_WRITE: Final = frozenset({"generation", "managedFields", "resourceVersion"})
"""Those that any write may change, even one that changes nothing else."""
