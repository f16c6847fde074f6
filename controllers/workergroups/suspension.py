"""Suspending a cluster: all its pods go before any may come again, whatever the spec says meanwhile."""

from typing import Literal

from attrs import frozen

Phase = Literal["running", "beginning", "suspending", "suspended"]

SUSPENDING = "RayClusterSuspending"
SUSPENDED = "RayClusterSuspended"


@frozen
class Suspension:
    """Where a cluster stands. `again`: the spec wants something else already, so look again at once."""

    phase: Phase
    again: bool = False


def plan_suspension(*, wanted: bool, suspending: bool, suspended: bool, pods: int) -> Suspension:
    """What the spec (`wanted`), the two conditions and the pods there are, Terminating ones too, come to.

    Nothing is deleted before the condition says that it will be (`beginning`): who comes after a crash
    must find that it had begun. Once it has, it goes on to its end (systems.md 1b, 4).
    """
    if suspending:
        return Suspension("suspending") if pods else Suspension("suspended", again=not wanted)
    if suspended:
        return Suspension("suspended" if wanted else "running")
    return Suspension("beginning", again=True) if wanted else Suspension("running")
