"""Switches from an operator on kopf: `switch_plan` decides on each step, here it is taken.

While it waits, the entries that freeze peers are renewed by a task of their own, since a look at many objects
takes longer than an entry holds. At its end they are removed unless the operator has been stopped; those of a
process that is killed expire.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
import msgspec
from attrs import define, evolve, field, frozen

from informers import ApiError, Clock, Forbidden, NotFound, Unauthorized
from reconcile.adoption import switch_plan as plan
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.audit import SeenDeployment, SeenPeer
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.client.kopf_peerings import Peering, PeeringNotKept, PeeringReading, Signature
from reconcile.client.patch_types import MERGE
from reconcile.client.sender import Sender
from reconcile.doctor.findings import Unread
from reconcile.runs.supervision import without_groups

LIFETIME: Final = 60
"""Seconds for which peers stay frozen after this process was killed."""
RENEWAL: Final = 15.0
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 10.0
"""Seconds between two looks while something is waited for."""
AT_THE_END: Final = 10.0
"""Seconds that the removal of the entries may take."""


class SwitchStuck(Exception):
    """A switch ended before its end: `problem`, and `hint`, the next step."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(f"{problem}: {hint}")
        self.problem = problem
        self.hint = hint


@frozen
class Scope:
    """What a switch is about: the kinds, what is not known of them, and where the operator on kopf is seen.

    `peering` is the name of its peering objects, empty for none; those of `namespaces`, empty: of all.
    """

    kinds: Sequence[AdoptedKind]
    unread: Sequence[Unread] = ()
    deployments: Sequence[str] = ()
    peering: str = ""
    namespaces: Sequence[str] = ()
    only_with_traces: bool = False


@define(eq=False)
class Switch:
    """Stops the operator on kopf of `scope`; `tell` gets a line for each step."""

    sender: Sender
    clock: Clock
    scope: Scope
    terms: plan.Terms = field(factory=plan.Terms)
    tell: Callable[[str], None] = lambda line: None
    _signature: Signature = field(init=False)
    _signed: dict[str, Peering] = field(factory=dict, init=False)
    _writing: anyio.Lock = field(factory=anyio.Lock, init=False)
    _stopping: bool = field(default=False, init=False)
    _refused: bool = field(default=False, init=False)
    _told: str = field(default="", init=False)
    _began: float | None = field(default=None, init=False)
    _frozen_since: float | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._signature = Signature(self.sender, self.clock, plan.IDENTITY, LIFETIME)

    async def run(self, timeout: float) -> plan.Finished:
        """Take all steps. Raises SwitchStuck when `timeout` seconds are over, and where only a person can go
        on; then the operator on kopf goes on as before, unless it has been stopped."""
        missing = failure = hint = ""
        async with self._kept_alive():
            with anyio.move_on_after(timeout):
                wait = FIRST_WAIT
                while True:
                    try:
                        seen = await self.look()
                        await self._adopt(seen)
                        step = plan.next_step(seen, self.terms)
                        if isinstance(step, plan.Finished):
                            return step
                        if self._is_new(step):
                            await anyio.sleep(FIRST_WAIT)
                            continue
                        missing, hint = self._say(step), step.hint if isinstance(step, plan.Wait) else ""
                        progress = await self._take(step)
                    except (Forbidden, Unauthorized) as error:
                        raise SwitchStuck(str(error), "grant that right, and run the command again") from None
                    except PeeringNotKept as error:
                        mend = "mend it, or stop the operator on kopf by hand"
                        raise SwitchStuck(str(error), mend) from None
                    except ApiError as error:
                        failure, progress = f"; the last error: {error}", False
                    wait = FIRST_WAIT if progress else min(2 * wait, LONGEST_WAIT)
                    await anyio.sleep(wait)
        raise SwitchStuck(
            f"not switched within {timeout:g} s: {missing or 'nothing was read yet'}{failure}",
            hint or "run the command again; `reconcile adopt kopf audit` says what each object waits for",
        )

    def _is_new(self, step: plan.Step) -> bool:
        """Whether a refusal is the first one: objects are listed before peers, and one list may just fail."""
        refused, self._refused = self._refused, isinstance(step, plan.Refuse)
        return self._refused and not refused

    # --- read -------------------------------------------------------------------------------------------

    async def look(self) -> plan.Seen:
        """What the cluster has. Raises ApiError."""
        scope, names = self.scope, [self.scope.peering] if self.scope.peering else []
        audit = await ClusterReading(self.sender, self.clock).audit(
            scope.kinds,
            peerings=names,
            deployments=scope.deployments,
            only_with_traces=scope.only_with_traces,
            unread=scope.unread,
        )
        peerings = await PeeringReading(self.sender, scope.peering, scope.namespaces).peerings()
        now, time = self.clock.now(), anyio.current_time()
        peers = [
            SeenPeer(str(one), peer.identity, peer.priority, round(peer.seconds_left(now)))
            for one in peerings
            for peer in one.operators(now)
        ]
        meant = {
            name: [one.name for one in audit.deployments if _is(one, name)] for name in scope.deployments
        }
        seen = plan.Seen(
            evolve(audit, peers=peers),
            now,
            peerings,
            [name for name, found in meant.items() if not found],
            [name for found in meant.values() if len(found) > 1 for name in found],
        )
        self._stopping = seen.stopping
        self._began = time if self._began is None else self._began
        since = time if self._frozen_since is None else self._frozen_since
        self._frozen_since = since if seen.frozen else None
        return evolve(seen, waited=time - self._began, frozen_for=time - since if seen.frozen else 0.0)

    # --- write ------------------------------------------------------------------------------------------

    async def _take(self, step: plan.Step) -> bool:
        """Whether the step was taken; otherwise it is time to wait."""
        match step:
            case plan.Refuse(problem, hint):
                raise SwitchStuck(problem, hint)
            case plan.Freeze(peerings):
                async with self._writing:
                    for peering in peerings:
                        self._signed[str(peering)] = peering
                        await self._signature.sign(peering)
            case plan.Thaw(peerings):
                await self._remove(peerings)
            case plan.Stop(deployments):
                self._stopping = True
                for one in deployments:
                    body = msgspec.json.encode({"spec": {"replicas": 0}})
                    await self.sender.send("PATCH", f"{_path(one)}/scale", bytes, {}, MERGE.headers, body)
            case _:
                return False
        return True

    async def _adopt(self, seen: plan.Seen) -> None:
        """Keep alive what an earlier process signed that was killed: it would expire unseen."""
        for peering in seen.signed if seen.live else ():
            if str(peering) not in self._signed:
                await self._take(plan.Freeze([peering]))

    async def _remove(self, peerings: Sequence[Peering]) -> None:
        async with self._writing:
            for peering in peerings:
                self._signed.pop(str(peering), None)
                await self._signature.remove(peering)

    @asynccontextmanager
    async def _kept_alive(self) -> AsyncIterator[None]:
        with without_groups():
            async with anyio.create_task_group() as group:
                group.start_soon(self._renew)
                try:
                    yield
                finally:
                    group.cancel_scope.cancel()
                    if not self._stopping:
                        with anyio.move_on_after(AT_THE_END, shield=True):
                            await self._remove_all()

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(RENEWAL)
            async with self._writing:
                for name, peering in list(self._signed.items()):
                    try:
                        await self._signature.sign(peering)
                    except NotFound:
                        del self._signed[name]
                    except (ApiError, PeeringNotKept) as error:
                        self.tell(f"the freeze of {name} was not renewed: {error}")

    async def _remove_all(self) -> None:
        for name, peering in list(self._signed.items()):
            try:
                await self._remove([peering])
            except ApiError as error:
                self.tell(f"the freeze of {name} was not removed; it expires in {LIFETIME} s: {error}")

    def _say(self, step: plan.Step) -> str:
        line = text_of(step)
        if line and line != self._told:
            self._told = line
            self.tell(line)
        return line


def text_of(step: plan.Step) -> str:
    """A step in words; empty for one that ends the switch."""
    match step:
        case plan.Wait(what):
            return f"waiting until {what}"
        case plan.Freeze(peerings):
            return f"freezing the peers in {plan.listed([str(one) for one in peerings])}"
        case plan.Thaw(peerings, why):
            return f"lifting the freeze in {plan.listed([str(one) for one in peerings])}: {why}"
        case plan.Stop(deployments):
            return f"scaling {plan.listed([f'Deployment {one.name}' for one in deployments])} to 0"
    return ""


def _is(deployment: SeenDeployment, name: str) -> bool:
    return name in (deployment.name, deployment.name.partition("/")[2])


def _path(deployment: SeenDeployment) -> str:
    namespace, _, name = deployment.name.partition("/")
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
