"""One replica of an operator in a process of its own: while it leads it writes five times a second."""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from informers import Transport
from informers.kubernetes import connect
from reconcile import Context, Controller, LeaderElection, Manager
from reconcile.errors import LeadershipLost
from reconcile.kinds import ConfigMap

LOST = 3
"""The exit status of a replica that lost its lease."""


async def count(ctx: Context[ConfigMap]) -> None:
    """Count in the object, and say who did."""
    counted = int(ctx.object.data.get("count", "0")) + 1
    await ctx.client.raw.merge(ctx.object, {"data": {"count": str(counted), "by": ctx.client.field_manager}})


def run(folder: Path, name: str, kubeconfig: str, namespace: str) -> None:
    """Run until SIGTERM, or until the lease is lost."""
    controller = Controller(ConfigMap, count, name=name, wakes=lambda old, new: False, every=0.2)
    election = LeaderElection("lock", namespace, identity=name)
    reach = partial(connect, folder / kubeconfig)
    operate(folder, name, reach, controller, namespace=namespace, leader_election=election)


def operate(
    folder: Path,
    name: str,
    reach: Callable[[], Awaitable[Transport]],
    controller: Controller[Any],
    **options: Any,
) -> None:
    """Run a controller with these options of a manager, as `run` does; the log is NAME.log."""
    logging.basicConfig(filename=folder / f"{name}.log", level=logging.INFO, format="%(created)f %(message)s")
    try:
        anyio.run(_operate, reach, controller, options)
    except LeadershipLost as lost:
        logging.error("%s", lost)
        sys.exit(LOST)


async def _operate(
    reach: Callable[[], Awaitable[Transport]], controller: Controller[Any], options: Mapping[str, Any]
) -> None:
    transport = await reach()
    manager = Manager(controller, transport=transport, environ={}, **options)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, manager.stop)
    try:
        await manager.run()
    finally:
        await transport.aclose()
