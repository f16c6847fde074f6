"""An operator on kopf is replaced at each of its writes and effects: the world ends as if it had not been.

Each moment of a life under the real kopf is loaded into a server in virtual time. There our operator takes
over; then the spec loses a field, and the object is deleted.
"""

import datetime
import functools
import json
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, field

from informers import SystemClock
from reconcile import Client, Manager, ObjectMeta, Predecessor
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.served import ServedResource
from reconcile.kinds import ConfigMap, Event
from reconcile.models import definition_of
from reconcile.predecessors import KopfTraces, traces_on
from reconcile.testing import LateTransport, VirtualClock, simulate
from tests.adoption.kopf_life import NAME, PLACE, Moment, live_anew, recorded, title
from tests.adoption.tenants import Accounts, Tenant, TenantSpec, tenants

IN_FULL = "LABORATORY" in os.environ
START = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC)
OURS = "example.com/tenant"
ON_KOPF = Predecessor.kopf("tenants on kopf")
NAMES = KopfTraces()
SERVED = {"tenants": ("example.com", "v1"), "configmaps": ("", "v1")}
SETTLED = 30.0
COMMAND = re.compile(r"kubectl annotate tenants\.example\.com a -n default (.+)$")

pytestmark = [pytest.mark.rule("takeover-kopf"), pytest.mark.timeout(600)]

LIFE = recorded()


@functools.cache
def prepared() -> ApiServer:
    """A server with the definition of the kind; each play has a copy."""
    server = ApiServer(clock=SystemClock())
    anyio.run(Client(InProcessTransport(server, settle=True)).apply, definition_of(Tenant))
    return server


@define
class Play:
    """A world in virtual time, as kopf left it at some moment."""

    left: Sequence[Moment] = ()
    predecessor: Predecessor | None = ON_KOPF
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
                self.server._engine.put(self._served(plural), obj)

    def _served(self, plural: str) -> ServedResource:
        group, version = SERVED[plural]
        found = self.server.resources.get(group, version, plural)
        assert found is not None
        return found

    def stored(self, plural: str) -> dict[str, Any] | None:
        state = self.server._engine.get(self._served(plural), PLACE, NAME)
        return None if state is None else state.decode()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.run)
            yield
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def operated(self) -> AsyncIterator[None]:
        """Our operator is at work; at the end its process dies."""
        transport = LateTransport(InProcessTransport(self.server), 0)
        manager = Manager(tenants(self.accounts, self.predecessor), transport=transport, clock=self.clock)
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            yield
            group.cancel_scope.cancel()

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


def world_of(play: Play) -> Mapping[str, Any]:
    """What there is, without what differs from world to world: versions, uids and times."""
    tenant, child = play.stored("tenants"), play.stored("configmaps")
    assert tenant is not None
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
    play = Play(predecessor=None)

    async def run() -> None:
        async with play.served(), play.operated():
            spec = TenantSpec(size, "red")
            await play.client.create(Tenant(metadata=ObjectMeta(NAME, PLACE), spec=spec))
            await anyio.sleep(SETTLED)

    simulate(run)
    return world_of(play)


def nothing_is_twice(play: Play) -> None:
    effects = [tuple(effect) for effect in play.accounts.effects]
    assert len(set(effects)) == len(effects), effects


def nothing_of_kopf_is_left(play: Play) -> None:
    tenant = play.stored("tenants")
    assert tenant is not None
    assert not traces_on(tenant, NAMES)
    assert NAMES.prefix not in json.dumps(tenant)  # nor in the fields that kopf owns


def begun_and_not_ended(left: Sequence[Moment]) -> bool:
    """Whether kopf may have called a handler of creation, and has not called them all to the end."""
    tenant = next((one["object"] for one in reversed(left) if one.get("plural") == "tenants"), None)
    if tenant is None or "deletionTimestamp" in tenant["metadata"]:
        return False
    handled = "kopf.zalando.org/last-handled-configuration" in tenant["metadata"].get("annotations", {})
    return not handled and "finalizers" in tenant["metadata"]


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
    given = [word.partition("=") for word in command[1].split()]
    marks = {name if sign else name.removesuffix("-"): value if sign else None for name, sign, value in given}
    await play.client.raw.merge(tenant, {"metadata": {"annotations": marks}})


async def take_over(play: Play, kill_after: int) -> None:
    before = {plural: play.stored(plural) for plural in SERVED}
    effects = list(play.accounts.effects)
    async with play.served():
        if kill_after:
            await play.killed_after(kill_after)
        async with play.operated():
            await anyio.sleep(SETTLED)
            if begun_and_not_ended(play.left):
                assert {plural: play.stored(plural) for plural in SERVED} == before
                assert play.accounts.effects == effects
                await see_to_it_and_release(play)
                await anyio.sleep(SETTLED)
            nothing_is_twice(play)
            tenant, child = before["tenants"], before["configmaps"]
            if tenant is not None and "deletionTimestamp" not in tenant["metadata"]:
                assert world_of(play) == without_kopf(tenant["spec"]["size"])
                nothing_of_kopf_is_left(play)
                kept = play.stored("configmaps")
                assert kept is not None
                assert child is None or kept["metadata"]["uid"] == child["metadata"]["uid"]
                await lose_a_field_and_go(play)
        assert [play.stored(plural) for plural in SERVED] == [None, None]
        assert play.accounts.opened(NAME) == 0
        nothing_is_twice(play)


async def lose_a_field_and_go(play: Play) -> None:
    await play.client.modify(Tenant, NAME, PLACE, lambda found: found.replace(spec=TenantSpec(3, None)))
    await anyio.sleep(SETTLED)
    assert (await play.client.get(ConfigMap, NAME, PLACE)).data == {"size": "3"}
    await play.client.delete(await play.client.get(Tenant, NAME, PLACE))
    await anyio.sleep(SETTLED)


def switched(left: Sequence[Moment], kill_after: int = 0) -> None:
    for size in (1, 2):
        without_kopf(size)  # a simulation of its own
    simulate(take_over, Play(left), kill_after)


@pytest.mark.parametrize("number", range(1, len(LIFE) + 1), ids=lambda number: title(LIFE[number - 1]))
def test_the_switch_ends_as_if_kopf_had_never_been_there(number: int) -> None:
    switched(LIFE[:number])


@pytest.mark.parametrize("kill_after", range(1, 7))
def test_a_new_operator_that_dies_in_the_switch_is_followed_by_one_that_goes_on(kill_after: int) -> None:
    handled = [number for number, moment in enumerate(LIFE, 1) if "last-handled" in title(moment)]
    for number in handled:
        switched(LIFE[:number], kill_after)


def test_the_recorded_life_has_each_sort_of_moment() -> None:
    effects = [tuple(moment["effect"]) for moment in LIFE if "effect" in moment]
    assert effects == [("open", NAME), ("resize", NAME, 1), ("resize", NAME, 2), ("close", NAME)]
    held = [number for number in range(1, len(LIFE) + 1) if begun_and_not_ended(LIFE[:number])]
    assert title(LIFE[held[0] - 1]) == "tenants: finalizer"
    assert title(LIFE[held[-1] - 1]) == "configmaps: there"
    assert any("deletionTimestamp" in json.dumps(moment) for moment in LIFE)


@pytest.mark.skipif(not IN_FULL, reason="make laboratory: runs kopf, which takes longer")
def test_kopf_still_lives_as_recorded_and_each_moment_of_that_life_can_be_the_switch() -> None:
    life = live_anew()
    assert {title(moment) for moment in life} == {title(moment) for moment in LIFE}
    for number in range(1, len(life) + 1):
        switched(life[:number])
