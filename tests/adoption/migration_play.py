"""A server in virtual time as an operator on kopf left it at some moment, and what takes over there."""

import datetime
import functools
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from attrs import define, field

from informers import Key, SystemClock
from reconcile import Client, Manager, ObjectMeta, Predecessor
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.switch_release import Release
from reconcile.client.sender import Sender
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.served import ServedResource
from reconcile.kinds import Event
from reconcile.models import definition_of, kind_of
from reconcile.predecessors import KopfTraces, traces_on
from reconcile.testing import Crash, FaultPlan, FaultyTransport, LateTransport, VirtualClock, simulate
from reconcile.testing.recorded_requests import RecordedRequest
from tests.adoption.kopf_life import NAME, PLACE, Life, Moment
from tests.adoption.tenants import Accounts, Tenant, TenantSpec, tenants

START: Final = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
SERVED: Final = {"tenants": ("example.com", "v1"), "configmaps": ("", "v1")}
SETTLED: Final = 30.0
COMMAND: Final = re.compile(r"reconcile adopt kopf switch (.+)$")


def predecessor_of(life: Life) -> Predecessor:
    """The operator on kopf that lived it."""
    return Predecessor.kopf("tenants on kopf", prefix=life.names.prefix, finalizer=life.names.finalizer)


@functools.cache
def prepared() -> ApiServer:
    """A server with the definition of the kind; each play has a copy."""
    server = ApiServer(clock=SystemClock())
    anyio.run(Client(InProcessTransport(server, settle=True)).apply, definition_of(Tenant))
    return server


@define
class Play:
    """A world as kopf left it. `finds`: the port looks for an account before it opens one."""

    left: Sequence[Moment] = ()
    predecessor: Predecessor | None = None
    finds: bool = False
    clock: VirtualClock = field(init=False, factory=lambda: VirtualClock(start=START))
    server: ApiServer = field(init=False)
    client: Client = field(init=False)
    accounts: Accounts = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = prepared().copy(self.clock)
        self.client = Client(InProcessTransport(self.server, settle=True), clock=self.clock)
        self.accounts = Accounts([tuple(one["effect"]) for one in self.left if "effect" in one])
        last = {moment["plural"]: moment["object"] for moment in self.left if "plural" in moment}
        for plural, obj in last.items():
            if obj is not None:
                self.server._engine.put(served_kind(self.server, plural), obj)

    def stored(self, plural: str) -> dict[str, Any] | None:
        state = self.server._engine.get(served_kind(self.server, plural), PLACE, NAME)
        return None if state is None else state.decode()

    @property
    def tenant(self) -> dict[str, Any]:
        found = self.stored("tenants")
        assert found is not None
        return found

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.run)
            yield
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def operated(self, faults: FaultPlan | None = None) -> AsyncIterator[FaultyTransport]:
        """Our operator is at work; at the end its process dies, or earlier by a fault."""
        transport = FaultyTransport(LateTransport(InProcessTransport(self.server), 0), faults or FaultPlan())
        controller = tenants(self.accounts, self.predecessor, finds=self.finds)
        manager = Manager(controller, transport=transport, clock=self.clock)
        try:
            async with anyio.create_task_group() as group:
                await group.start(manager.run)
                yield transport
                group.cancel_scope.cancel()
        except* Crash:
            pass

    async def killed_after(self, writes: int) -> None:
        """Our operator works, and dies after so many changes of the object and its child."""
        last = anyio.Event()
        left = writes

        def count(change: Any) -> None:
            nonlocal left
            left -= change.resource[1] in SERVED
            if left <= 0:
                last.set()

        self.server.log.on_change(count)
        async with self.operated():
            with anyio.move_on_after(SETTLED):
                await last.wait()
        self.server.log.forget(count)


def served_kind(server: ApiServer, plural: str) -> ServedResource:
    group, version = SERVED[plural]
    found = server.resources.get(group, version, plural)
    assert found is not None
    return found


def own_writes(transport: FaultyTransport) -> Sequence[RecordedRequest]:
    """The writes of an operator but its Events."""
    return [one for one in transport.writes if "/events" not in one.path]


# --- what kopf left ------------------------------------------------------------------------------


def tenant_in(left: Sequence[Moment]) -> dict[str, Any] | None:
    """The object at that moment."""
    found: dict[str, Any] | None = next(
        (one["object"] for one in reversed(left) if one.get("plural") == "tenants"), None
    )
    return found


def is_held(left: Sequence[Moment], names: KopfTraces) -> bool:
    """Whether kopf may have called a handler of creation, and has not called them all to the end."""
    tenant = tenant_in(left)
    if tenant is None or "deletionTimestamp" in tenant["metadata"]:
        return False
    handled = f"{names.prefix}/last-handled-configuration" in tenant["metadata"].get("annotations", {})
    return not handled and "finalizers" in tenant["metadata"]


def is_terminating(left: Sequence[Moment]) -> bool:
    """Whether the object is being deleted, or has gone."""
    tenant = tenant_in(left)
    return tenant is None or "deletionTimestamp" in tenant["metadata"]


def has_lost_a_result(left: Sequence[Moment], names: KopfTraces) -> bool:
    """Whether kopf was killed between the two writes that end a creation: the annotations, and the status."""
    tenant = tenant_in(left)
    if tenant is None or is_held(left, names):
        return False
    return bool(traces_on(tenant, names).last_handled and not tenant.get("status"))


async def see_to_it_and_release(play: Play) -> None:
    """What a person does for an object that is held: note what was done outside, and run the command."""
    events = [event for event in await play.client.list(Event) if event.reason == "HalfCreated"]
    assert events
    tenant = await play.client.get(Tenant, NAME, PLACE)
    if play.accounts.opened(NAME) and not tenant.status.open_account:
        noted = {"status": {"open_account": {"account": NAME}}}
        await play.client.raw.merge(tenant, noted, subresource="status")
        tenant = await play.client.get(Tenant, NAME, PLACE)
    command = COMMAND.search(events[-1].message or "")
    assert command, events[-1].message
    words = command[1].split()
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert (given.pop("--kind"), given.pop("--finished")) == ("tenants.example.com", f"{PLACE}/{NAME}")
    names = KopfTraces(**{option.removeprefix("--"): name for option, name in given.items()})
    release = Release(Sender(play.client.transport, play.clock))
    (held,) = await release.held([AdoptedKind(kind_of(Tenant).resource, names)], Key(PLACE, NAME))
    await release.release(held)


# --- how it ends ---------------------------------------------------------------------------------


def world_of(play: Play) -> Mapping[str, Any]:
    """What there is, without what differs from world to world: versions, uids and times."""
    tenant, child = play.tenant, play.stored("configmaps")
    assert child is not None
    assert child["metadata"]["ownerReferences"]
    child = json.loads(json.dumps(child).replace(tenant["metadata"]["uid"], "the tenant"))
    return {
        "spec": tenant["spec"],
        "account": tenant["status"]["account"],
        "marks": [tenant["metadata"].get(name) for name in ("finalizers", "annotations", "labels")],
        "child": [child["data"], child["metadata"].get("labels"), child["metadata"].get("annotations")],
        "owners": child["metadata"]["ownerReferences"],
        "fields": [{**entry, "time": ""} for entry in child["metadata"]["managedFields"]],
        "open": play.accounts.opened(NAME),
        "size": play.accounts.size_of(NAME),
    }


@functools.cache
def without_kopf(size: int) -> Mapping[str, Any]:
    """The world as our operator makes it, where kopf never was."""
    play = Play()

    async def run() -> None:
        async with play.served(), play.operated():
            spec = TenantSpec(size, "red")
            await play.client.create(Tenant(metadata=ObjectMeta(NAME, PLACE), spec=spec))
            await anyio.sleep(SETTLED)

    simulate(run)
    return world_of(play)


def assert_nothing_is_twice(play: Play) -> None:
    effects = [tuple(effect) for effect in play.accounts.effects]
    assert len(set(effects)) == len(effects), effects


def assert_nothing_of_kopf_is_left(play: Play, names: KopfTraces) -> None:
    tenant = play.tenant
    assert not traces_on(tenant, names)
    assert names.prefix not in json.dumps(tenant)  # nor in the fields that kopf owns
