"""`reconcile uninstall`: takes an operator out of a cluster, so that nothing hangs afterwards."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import click
from attrs import frozen

from informers import ApiError, Transport
from informers.cluster_connection import ConfigurationProblem
from informers.kubernetes import connect
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem
from reconcile.commands.terminals import is_interactive
from reconcile.shipping import uninstall_plan as plan
from reconcile.shipping.uninstall import Uninstall, UninstallStuck

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@click.command()
@click.argument("name")
@click.option(
    "--namespace", "-n", metavar="NS", help="Namespace that the operator runs in. Default: NAME-system."
)
@click.option(
    "--keep-data",
    is_flag=True,
    help="Keep definitions and the objects of its kinds, without the operator's finalizers.",
)
@click.option(
    "--orphan",
    is_flag=True,
    help="Stop the operator first, and delete the objects of its kinds without cleanup: what they own stays.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=600.0,
    metavar="S",
    help="Seconds until it gives up and says what is stuck. Default: 600.",
)
@click.option("--dry-run", is_flag=True, help="Print what it would do, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@kubeconfig_options
def uninstall(
    name: str,
    namespace: str | None,
    keep_data: bool,
    orphan: bool,
    timeout: float,
    dry_run: bool,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Uninstall the operator NAME that `reconcile manifests` or its chart installed.

    Deletes the objects of its kinds while it still runs, owners first, waits until its finalizers are worked
    off, and then deletes their definitions, webhooks, the operator, its rights and Leases. Its namespace
    stays. It may be interrupted at any time and run again. Exit status 1: something is stuck, and the last
    line says what.
    """
    if keep_data and orphan:
        raise Problem("--keep-data and --orphan were both given", "use one of them")
    if not _LABEL.fullmatch(name):
        raise Problem(f"{name!r} is not the name of an operator", "expected that of its Deployment")
    if namespace is not None and not _LABEL.fullmatch(namespace):
        raise Problem(f"{namespace!r} is not the name of a namespace", "expected that of its Deployment")
    mode = plan.Mode.KEEP if keep_data else plan.Mode.ORPHAN if orphan else plan.Mode.DELETE
    asked = _Asked(name, namespace or f"{name}-system", mode, timeout)
    if not (dry_run or yes or is_interactive()):
        raise Problem("nothing was uninstalled", "add --yes, or see with --dry-run what it would do")
    try:
        parts, notes = anyio.run(_outlined, asked, kubeconfig, context)
        for line in (*(parts or [f"nothing of {asked.place} is to be uninstalled"]), *notes):
            click.echo(line)
        if dry_run or not parts:
            return
        if not yes and not click.confirm("Do all this?"):
            raise Problem("nothing was uninstalled", "")
        anyio.run(_uninstalled, asked, kubeconfig, context)
    except ConfigurationProblem as problem:
        raise Problem(str(problem), "name another with --kubeconfig") from None
    except ApiError as error:
        raise Problem(str(error)) from None
    except UninstallStuck as stuck:
        raise NotUninstalled(stuck.problem, stuck.hint) from None


class NotUninstalled(Problem):
    """The uninstall could not be finished: exit status 1."""

    exit_code = 1


@frozen
class _Asked:
    name: str
    namespace: str
    mode: plan.Mode
    timeout: float

    @property
    def place(self) -> str:
        return f"{self.namespace}/{self.name}"

    def uninstall(self, transport: Transport) -> Uninstall:
        return Uninstall(self.name, self.namespace, self.mode, transport, tell=click.echo)


async def _outlined(
    asked: _Asked, kubeconfig: str | None, context: str | None
) -> tuple[Sequence[str], Sequence[str]]:
    """What would be done, and what would stay. Raises UninstallStuck where nothing can be done."""
    async with _connected(kubeconfig, context) as transport:
        seen = await asked.uninstall(transport).look()
    step = plan.next_step(seen, asked.mode)
    if isinstance(step, plan.Refused):
        raise UninstallStuck(step.problem, step.hint)
    return plan.outline(seen, asked.mode), plan.notes(seen, asked.mode)


async def _uninstalled(asked: _Asked, kubeconfig: str | None, context: str | None) -> None:
    async with _connected(kubeconfig, context) as transport:
        finished = await asked.uninstall(transport).run(asked.timeout)
    click.echo(f"uninstalled {asked.place}")
    for note in finished.notes:
        click.echo(note)


@asynccontextmanager
async def _connected(kubeconfig: str | None, context: str | None) -> AsyncIterator[Transport]:
    transport = await connect(kubeconfig, context)
    try:
        yield transport
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()
