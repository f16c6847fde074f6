"""Suspending a cluster: all its pods are deleted before any is created again."""

from typing import Literal

from attrs import frozen

Phase = Literal["running", "beginning", "suspending", "suspended"]

SUSPENDING = "RayClusterSuspending"
SUSPENDED = "RayClusterSuspended"


@frozen
class Suspension:
    """`again`: the spec already asks for another phase, so run again at once."""

    phase: Phase
    again: bool = False


def plan_suspension(*, wanted: bool, suspending: bool, suspended: bool, pods: int) -> Suspension:
    """The phase that follows from the spec (`wanted`), the two conditions, and all `pods`.

    Nothing is deleted before the condition says so (`beginning`): after a crash the next process must see
    that the suspension had begun. Once begun, it runs to its end (systems.md 1b, 4).
    """
    if suspending:
        return Suspension("suspending") if pods else Suspension("suspended", again=not wanted)
    if suspended:
        return Suspension("suspended" if wanted else "running")
    return Suspension("beginning", again=True) if wanted else Suspension("running")
