"""One replica of an operator in a process of its own: while it leads it writes five times a second."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

import anyio

from informers.kubernetes import connect
from reconcile import Context, Controller, LeaderElection, LeadershipLost, Manager
from reconcile.kinds import ConfigMap

LOST = 3
"""The exit status of a replica that lost its lease."""


async def count(ctx: Context[ConfigMap]) -> None:
    """Count in the object, and say who did."""
    counted = int(ctx.object.data.get("count", "0")) + 1
    await ctx.client.merge(ctx.object, {"data": {"count": str(counted), "by": ctx.client.field_manager}})


def run(folder: Path, name: str, kubeconfig: str, namespace: str) -> None:
    """Run until SIGTERM, or until the lease is lost."""
    logging.basicConfig(filename=folder / f"{name}.log", level=logging.INFO, format="%(created)f %(message)s")
    try:
        anyio.run(_run, folder / kubeconfig, name, namespace)
    except LeadershipLost as lost:
        logging.error("%s", lost)
        sys.exit(LOST)


async def _run(kubeconfig: Path, name: str, namespace: str) -> None:
    transport = await connect(kubeconfig)
    manager = Manager(
        Controller(ConfigMap, count, name=name, wakes=lambda old, new: False, every=0.2),
        transport=transport,
        namespace=namespace,
        leader_election=LeaderElection("lock", namespace, identity=name),
        environ={},
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, manager.stop)
    try:
        await manager.run()
    finally:
        await transport.aclose()
