"""The checks behind `/readyz` that a manager brings itself."""

from collections.abc import Callable, Mapping

from reconcile.manager.option_values import ReadyWhen
from reconcile.ops.health_checks import Check, ping
from reconcile.ops.manager_status import ManagerStatus


def readiness_checks(
    ready_when: ReadyWhen, status: Callable[[], ManagerStatus], started: Callable[[], bool]
) -> Mapping[str, Check]:
    """Checks by name, each of which raises RuntimeError while the manager is not that far."""

    def caches() -> None:
        now = status()
        if not now.clusters:
            raise RuntimeError("not connected yet")
        if behind := [informer.resource for informer in now.informers if not informer.synced]:
            raise RuntimeError(f"no first list of {', '.join(behind)} yet")

    def leader() -> None:
        if not started() or not status().leading:
            raise RuntimeError("this manager does not lead")

    checks: dict[str, Check] = {"ping": ping}
    if ready_when != "up":
        checks["caches"] = caches
    if ready_when == "leading":
        checks["leader"] = leader
    return checks
