"""`reconcile adopt kopf back`: hands objects back to the operator on kopf that kept them before."""

from collections.abc import Sequence
from typing import Any, Final

import anyio
import click
from attrs import frozen

from informers import SystemClock
from reconcile.adoption.audit import counted
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.adoption.handing_back import Fates, HandingBack
from reconcile.adoption.kopf_return import Fate, Path, ReturnedKind
from reconcile.adoption.own_operator import OwnOperatorActive, check_stopped
from reconcile.client.kopf_peerings import PeeringReading, lift_freezes
from reconcile.client.sender import Sender
from reconcile.commands.completions import modules
from reconcile.commands.definition_diff import Cluster
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.targets import Operator, load_operator
from reconcile.commands.terminals import is_interactive
from reconcile.controller.declaration import Controller
from reconcile.doctor.findings import printable
from reconcile.manager.predecessor_check import PredecessorActive, PredecessorCheck

WRITTEN: Final = (Fate.HANDED, Fate.CHANGED)


@click.command()
@click.argument("module", shell_complete=modules)
@click.option("--name", metavar="NAME", help="Name of the operator. Default: that of its manager or MODULE.")
@click.option(
    "--namespace", "-n", metavar="NS", help="Namespace that the operator runs in. Default: NAME-system."
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="PATH",
    help="A field outside of the spec that a handler on kopf is for, like `status.phase`.",
)
@click.option("--untraced", is_flag=True, help="Hand back objects too that have no trace of either operator.")
@click.option("--dry-run", is_flag=True, help="Print what it would do, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@kubeconfig_options
def back(
    module: str,
    name: str | None,
    namespace: str | None,
    fields: tuple[str, ...],
    untraced: bool,
    dry_run: bool,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Hand the objects of the operator MODULE back to the one on kopf that `Predecessor.kopf` names.

    Each object gets, in one write, kopf's finalizer in place of the new one, and the copy of what kopf
    handled last, as it is now: then kopf resumes it and does not call its `create` handlers again. Both
    operators have to be stopped meanwhile: it refuses while one has pods or holds a Lease. It may be killed
    at any time and run again. What the new operator wrote besides stays: conditions, results, and the fields
    that it owns. Exit status 1: some objects were not handed back, and the lines say which.
    """
    operator = load_operator(module, name or "")
    kinds = _kinds(operator, tuple(_path(text) for text in fields))
    if not (dry_run or yes or is_interactive()):
        raise Problem("nothing was handed back", "add --yes, or see with --dry-run what it would do")
    asked = _Asked(operator, namespace or f"{operator.name}-system", kinds, untraced)
    cluster = Cluster(kubeconfig, context)
    with progress("reading the objects"):
        outlook = anyio.run(_outlook, cluster, asked)
    _show(outlook)
    if dry_run:
        return 0
    if not any(fates.counts[fate] for fates in outlook for fate in WRITTEN):
        _unfreeze(cluster, asked, outlook)
        return _concluded(outlook, "nothing is left to hand back")
    if not yes and not click.confirm("Hand them back?"):
        raise Problem("nothing was handed back", "")
    with progress("writing the objects"):
        done = anyio.run(_handed_back, cluster, asked)
    _unfreeze(cluster, asked, done)
    return _concluded(done, "handed back: start the operator on kopf")


@frozen
class _Asked:
    operator: Operator
    home: str
    kinds: Sequence[ReturnedKind]
    untraced: bool


def _unfreeze(cluster: Cluster, asked: _Asked, fates: Sequence[Fates]) -> None:
    """Lift the freeze of a manager that has ended, which would keep the operator on kopf from its work."""
    if not all(one.complete for one in fates):
        return
    try:
        lifted = anyio.run(_lifted, cluster, asked)
    except Problem as problem:  # the objects are handed back all the same
        click.echo(f"the freeze was not lifted, and expires within 10 minutes: {problem.message}", err=True)
        return
    for place in lifted:
        click.echo(f"lifted the freeze in {printable(place)}")


async def _lifted(cluster: Cluster, asked: _Asked) -> Sequence[str]:
    """Raises Problem."""
    names = dict.fromkeys(kind.names.peering for kind in asked.kinds)
    namespaces = tuple(asked.operator.manager.namespaces)
    async with cluster.connected() as sender:
        readings = [PeeringReading(sender, name, namespaces) for name in names]
        return [place for one in readings for place in await lift_freezes(one, SystemClock())]


def _kinds(operator: Operator, fields: Sequence[Path]) -> Sequence[ReturnedKind]:
    """Those that controllers took over from kopf. Raises Problem."""
    manager = operator.manager
    found = [ReturnedKind.of(one, fields, manager.namespaces) for one in manager.controllers]
    kinds = [kind for kind in found if kind is not None]
    if not kinds:
        raise Problem(
            f"no controller of {operator.name} names an operator on kopf",
            "add predecessor=Predecessor.kopf(...) to those that replaced it",
        )
    return kinds


def _path(text: str) -> Path:
    """Raises Problem."""
    path = tuple(text.split("."))
    if not all(path) or path[0] not in ("metadata", "status") or len(path) < 2:
        raise Problem(
            f"--field: {text!r} is not a field below metadata or status", "write it like status.phase"
        )
    return path


async def _outlook(cluster: Cluster, asked: _Asked) -> Sequence[Fates]:
    """Raises Problem."""
    async with cluster.connected() as sender:
        await _check_stopped(sender, asked)
        return [await HandingBack(sender, asked.untraced).look(kind) for kind in asked.kinds]


async def _handed_back(cluster: Cluster, asked: _Asked) -> Sequence[Fates]:
    """Raises Problem."""
    async with cluster.connected() as sender:
        await _check_stopped(sender, asked)
        return [await HandingBack(sender, asked.untraced).run(kind) for kind in asked.kinds]


async def _check_stopped(sender: Sender, asked: _Asked) -> None:
    """That neither operator would work on the objects meanwhile. Raises Problem, ApiError."""
    operator, clock = asked.operator, SystemClock()
    try:
        await check_stopped(sender, clock, operator.name, asked.home, operator.manager.options)
    except OwnOperatorActive as active:
        raise Problem(
            f"{printable(active.found)}, so the new operator would take the objects over again", active.hint
        ) from None
    controllers: Sequence[Controller[Any]] = operator.manager.controllers
    own = frozenset().union(*(kind.managers for kind in asked.kinds))
    namespaces = tuple(operator.manager.namespaces)
    check = PredecessorCheck(sender.transport, clock, own, namespaces)
    try:
        await check.check(controllers)
    except PredecessorActive as active:
        raise Problem(
            f"{printable(active.found)}, so {active.predecessor.name} is at work",
            "stop it until the objects are handed back: it takes those without its copy for new ones",
        ) from None
    former = {name for one in controllers if one.predecessor for name in one.predecessor.deployments}
    for deployment in await ClusterReading(sender, clock).deployments(sorted(former)):
        if not deployment.stopped:
            raise Problem(
                f"the Deployment {deployment.name} has {counted(deployment.pods, 'pod')} not ended, so the "
                "operator on kopf may be at work",
                "wait until they have gone",
            )


def _show(fates: Sequence[Fates]) -> None:
    for one in fates:
        for line in one.lines():
            click.echo(printable(line))


def _concluded(fates: Sequence[Fates], good: str) -> int:
    """The last lines, and the exit status."""
    failed = [line for one in fates for line in one.lines() if one.failed or one.counts[Fate.DELETING]]
    if not failed:
        click.echo(good)
        return 0
    for line in failed:
        click.echo(printable(line), err=True)
    click.echo(
        "not all: start the new operator until the objects that are being deleted have gone, then run this "
        "again",
        err=True,
    )
    return 1
