"""`reconcile adopt kopf switch`: stops the operator on kopf at a moment when nothing is half done."""

import json
from collections.abc import Sequence
from typing import Literal

import anyio
import click
from attrs import frozen

from informers import Key, SystemClock
from reconcile.adoption import switch_plan as plan
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.audit import counted, ready
from reconcile.adoption.audit_text import facts_as_json
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.adoption.switch_leftovers import leftovers
from reconcile.adoption.switch_release import HeldObject, Release
from reconcile.adoption.switch_run import Scope, Switch, SwitchStuck
from reconcile.client.kopf_peerings import PeeringReading
from reconcile.client.sender import Sender
from reconcile.commands.definition_diff import Cluster
from reconcile.commands.doctor_command import show_findings
from reconcile.commands.kopf_options import FormerOperator, former_operator_options, kinds_of
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.terminals import is_interactive
from reconcile.doctor.findings import printable


class NotSwitched(Problem):
    """The switch could not be finished: exit status 1."""

    exit_code = 1


@click.command()
@former_operator_options
@click.option(
    "--unfinished",
    type=click.Choice(["hold", "run"]),
    default="hold",
    help="`run`: do not wait for creations, as the new operator's Predecessor.kopf(unfinished='run').",
)
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    default=plan.Terms().drain,
    metavar="S",
    help="Seconds for handlers that run to end once it is frozen. Default: 10.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=600.0,
    metavar="S",
    help="Seconds until it gives up and says what is missing. Default: 600.",
)
@click.option(
    "--finished",
    multiple=True,
    metavar="NAMESPACE/NAME",
    help="Release this object, whose creation by kopf you have finished or undone by hand.",
)
@click.option("--verify", is_flag=True, help="Only say what of kopf is left; exit status 1 if anything is.")
@click.option("--json", "as_json", is_flag=True, help="Print what --verify found as JSON.")
@click.option("--dry-run", is_flag=True, help="Print what it would do, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@kubeconfig_options
def switch(
    former: FormerOperator,
    unfinished: Literal["hold", "run"],
    drain: float,
    timeout: float,
    finished: tuple[str, ...],
    verify: bool,
    as_json: bool,
    dry_run: bool,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Stop the operator on kopf while none of its handlers is half-way, so that a new one can take over.

    It waits until no object is half-way through its creation, freezes the operator in its peering object (as
    `kopf freeze` does, while this command runs), gives handlers that run time to end, scales --deployment to
    0, and waits for the end of its pods. Then start the new operator, and see with --verify what is left. It
    may be killed at any time and run again. Without --deployment, stop the operator yourself when it is
    frozen. FILE, MODULE and --kind are as of `audit`; name the peering object with --peering unless it is
    `default`. Exit status 1: it could not be finished, and the last line says why;
    with --verify: something of kopf is left, or could not be read.
    """
    if verify and (finished or dry_run):
        raise Problem("--verify reads and changes nothing", "run it by itself")
    if as_json and not verify:
        raise Problem("--json is for what --verify finds", "add --verify, or leave --json out")
    asked = _Asked(Cluster(kubeconfig, context), former, plan.Terms(unfinished, drain), dry_run, yes)
    if verify:
        return _verified(asked, as_json=as_json)
    if finished:
        return _released(asked, [_key(text) for text in finished])
    return _switched(asked, timeout)


@frozen
class _Asked:
    cluster: Cluster
    former: FormerOperator
    terms: plan.Terms
    dry_run: bool
    yes: bool

    async def scope(self, sender: Sender) -> Scope:
        """Raises Problem, ApiError."""
        kinds, unread = await kinds_of(self.former, ClusterReading(sender, SystemClock()))
        return Scope(
            kinds,
            unread,
            self.former.deployments,
            self.former.traces.peering,
            self.former.namespaces,
            self.former.is_anyone,
        )

    async def look(self) -> plan.Seen:
        """Raises Problem."""
        async with self.cluster.connected() as sender:
            return await Switch(sender, SystemClock(), await self.scope(sender), self.terms).look()

    def confirm(self, lines: Sequence[str], question: str, nothing: str) -> bool:
        """Print what would be done; whether it is to be done. Raises Problem."""
        if not (self.dry_run or self.yes or is_interactive()):
            raise Problem(nothing, "add --yes, or see with --dry-run what it would do")
        for line in lines:
            click.echo(printable(line))
        if self.dry_run:
            return False
        if not self.yes and not click.confirm(question):
            raise Problem(nothing, "")
        return True


# --- the switch ---------------------------------------------------------------------------------------


def _switched(asked: _Asked, timeout: float) -> int:
    with progress("reading the objects"):
        seen = anyio.run(asked.look)
    step = plan.next_step(seen, asked.terms)
    if isinstance(step, plan.Refuse):
        raise NotSwitched(printable(step.problem), step.hint)
    lines = plan.outline(seen, asked.terms)
    if not lines:
        _conclude(plan.notes(seen), "no operator on kopf is seen to be alive")
        return 0
    if not asked.confirm(lines, "Do all this?", "nothing was switched"):
        return 0
    try:
        finished = anyio.run(_run, asked, timeout)
    except SwitchStuck as stuck:
        raise NotSwitched(printable(stuck.problem), stuck.hint) from None
    _conclude(finished.notes, "the operator on kopf has stopped")
    return 0


async def _run(asked: _Asked, timeout: float) -> plan.Finished:
    """Raises SwitchStuck, Problem."""
    async with asked.cluster.connected() as sender:
        switch = Switch(sender, SystemClock(), await asked.scope(sender), asked.terms, tell=_tell)
        return await switch.run(timeout)


def _tell(line: str) -> None:
    click.echo(printable(line))


def _conclude(notes: Sequence[str], good: str) -> None:
    for note in notes:
        click.echo(f"note: {printable(note)}")
    click.echo(f"{good}: start the new operator, then see with --verify what is left")


# --- what is left -------------------------------------------------------------------------------------


def _verified(asked: _Asked, *, as_json: bool) -> int:
    with progress("reading the objects"):
        seen = anyio.run(asked.look)
    report = leftovers(seen)
    done = ready(report)
    if as_json:
        verdict = {"nothingLeft": done, "findings": report.as_json(), **facts_as_json(seen.audit)}
        click.echo(json.dumps(verdict, indent=2))
        return 0 if done else 1
    show_findings(report)
    if not done:
        click.echo("something of kopf is left")
        return 1
    objects = sum(tally.objects for tally in seen.audit.tallies)
    click.echo(
        f"nothing of kopf is left on {counted(objects, 'object')}: leave predecessor= out of the controllers"
    )
    return 0


# --- objects that were created by half ----------------------------------------------------------------


def _key(text: str) -> Key:
    """Raises Problem."""
    namespace, _, name = text.rpartition("/")
    if not name or "/" in namespace:
        raise Problem(f"--finished: {text!r} is not the name of an object", "write NAMESPACE/NAME")
    return Key(namespace, name)


def _released(asked: _Asked, keys: Sequence[Key]) -> int:
    with progress("reading the objects"):
        held = anyio.run(_held, asked, keys)
    lines = [*map(str, held), "they will count as created, for kopf and for the new operator"]
    if not asked.confirm(lines, "Have you finished or undone what they did outside?", "nothing was released"):
        return 0
    anyio.run(_release, asked, held)
    for one in held:
        click.echo(f"released {printable(str(one)).partition(': ')[0]}")
    return 0


async def _held(asked: _Asked, keys: Sequence[Key]) -> Sequence[HeldObject]:
    """Raises Problem."""
    async with asked.cluster.connected() as sender:
        scope = await asked.scope(sender)
        await _check_not_at_work(sender, scope)
        return [await _only(sender, scope.kinds, key) for key in keys]


async def _check_not_at_work(sender: Sender, scope: Scope) -> None:
    """That no operator on kopf would finish the objects by itself. Raises Problem, ApiError."""
    now = SystemClock().now()
    for peering in await PeeringReading(sender, scope.peering, scope.namespaces).peerings():
        for peer in peering.operators(now):
            if not plan.is_frozen(peering, peer, now):
                raise NotSwitched(
                    f"{plan.peer_text(peer)} in {peering} is alive, and finishes what it has begun",
                    "let it, or stop it first",
                )
    deployments = await ClusterReading(sender, SystemClock()).deployments(scope.deployments)
    for one in deployments:
        if not one.stopped:
            raise NotSwitched(f"Deployment {one.name} runs, and finishes what it has begun", "stop it first")


async def _only(sender: Sender, kinds: Sequence[AdoptedKind], key: Key) -> HeldObject:
    """The object of that name that is held. Raises Problem, ApiError."""
    found = await Release(sender).held(kinds, key)
    if not found:
        raise Problem(
            f"no object {key} of the kinds that were read is half-way through its creation",
            "check the name, and name its kind with --kind",
        )
    if len(found) > 1:
        names = ", ".join(one.kind.resource.name for one in found)
        raise Problem(f"{names} have such an object {key}", "name one kind with --kind")
    return found[0]


async def _release(asked: _Asked, held: Sequence[HeldObject]) -> None:
    """Raises Problem."""
    async with asked.cluster.connected() as sender:
        for one in held:
            await Release(sender).release(one)
