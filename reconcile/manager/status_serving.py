"""The status page of a manager: what it is made of. Imported where a manager serves."""

import importlib.metadata
import platform
from collections.abc import Callable, Mapping

from reconcile.manager.option_list import ManagerOptions
from reconcile.ops.debug_actions import DebugActions
from reconcile.ops.health_checks import Check, all_pass
from reconcile.ops.manager_status import ManagerStatus
from reconcile.ops.metrics import Metrics
from reconcile.status.object_life import ObjectLives
from reconcile.status.status_board import BoardSources, StatusBoard
from reconcile.status.status_pages import StatusPages


def status_pages(
    options: ManagerOptions,
    status: Callable[[], ManagerStatus],
    actions: DebugActions,
    identity: Callable[[], str],
    readyz: Mapping[str, Check],
    metrics: Metrics,
) -> StatusPages:
    """The pages under /status. An empty `identity` is shown as the name of the machine."""

    def certificate_days() -> float | None:
        return None if metrics.certificate_days is None else metrics.certificate_days()

    sources = BoardSources(
        status=status,
        runners=actions.runners,
        replica=actions.replica,
        clock=options["clock"],
        version=_version(),
        name=options["name"],
        identity=lambda: identity() or platform.node(),
        ready=lambda: all_pass(readyz),
        certificate_days=certificate_days,
    )
    lives = ObjectLives(actions, status, options["clock"])
    return StatusPages(StatusBoard(sources), lives.life_of)


def _version() -> str:
    """Of this library; empty where it runs from a folder that is not installed."""
    try:
        return importlib.metadata.version("reconcile-runtime")
    except importlib.metadata.PackageNotFoundError:
        return ""
