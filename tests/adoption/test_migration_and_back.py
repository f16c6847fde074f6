"""Objects go over to our operator and back to kopf at each moment of a life: none is created anew."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from kopf._core.intents.causes import Reason

from informers import SystemClock
from reconcile import Client
from reconcile.adoption.handing_back import HandingBack
from reconcile.adoption.kopf_return import Fate, ReturnedKind
from reconcile.client.sender import Sender
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.kinds import ConfigMap
from reconcile.models import definition_of
from reconcile.testing import ListeningServer, eventually, simulate
from tests.adoption.kopf_causes import cause_of
from tests.adoption.kopf_life import LIVES, NAME, PATIENCE, PLACE, Life
from tests.adoption.migration_play import (
    SERVED,
    SETTLED,
    Play,
    is_held,
    is_terminating,
    predecessor_of,
    served_kind,
    tenant_in,
)
from tests.adoption.tenants import Accounts, Tenant, TenantSpec, tenants
from tests.helpers.kopf_process import kopf

IN_FULL = "LABORATORY" in os.environ
KILLS = (1, 2, 3, 4, 5, 6)
NEW_SIZE = 7

pytestmark = [pytest.mark.rule("takeover-kopf"), pytest.mark.timeout(600)]


def kind_of_life(life: Life) -> ReturnedKind:
    found = ReturnedKind.of(tenants(Accounts(), predecessor_of(life)))
    assert found is not None
    return found


async def gone_over(play: Play, kill_after: int) -> None:
    """Our operator is at work until it has done everything, or is killed after so many changes."""
    async with play.served():
        if kill_after:
            await play.killed_after(kill_after)
            return
        async with play.operated():
            await anyio.sleep(SETTLED)


async def handed_back(play: Play, life: Life) -> Fate | None:
    transport = InProcessTransport(play.server, settle=True)
    fates = await HandingBack(Sender(transport, play.clock)).run(kind_of_life(life))
    assert not fates.failed
    return next(iter(fates.counts), None)


def there_and_back(life: Life, number: int, kill_after: int = 0) -> tuple[Play, Fate | None]:
    play = Play(life.recorded()[:number], predecessor_of(life), finds=True)
    before = play.stored("tenants")
    simulate(gone_over, play, kill_after)
    fate = simulate(handed_back, play, life)
    if is_held(play.left, life.names):
        assert play.stored("tenants") == before  # kopf goes on where it was
        assert fate is Fate.KEPT
    return play, fate


MOMENTS = [(life, number) for life in LIVES.values() for number in range(1, len(life.recorded()) + 1)]


def moment_title(moment: Any) -> str:
    return moment.name if isinstance(moment, Life) else str(moment)


@pytest.mark.parametrize(("life", "number"), MOMENTS, ids=moment_title)
def test_kopf_resumes_what_our_operator_kept_in_between(life: Life, number: int) -> None:
    play, fate = there_and_back(life, number)
    if is_terminating(play.left):
        assert (play.stored("tenants"), fate) == (None, None)
    elif not is_held(play.left, life.names):
        assert fate is Fate.HANDED
        assert play.tenant["metadata"]["finalizers"] == [life.names.finalizer]
        assert cause_of(play.tenant, life.names) is Reason.RESUME


@pytest.mark.parametrize("life", LIVES.values(), ids=moment_title)
def test_kopf_creates_nothing_anew_where_our_operator_was_killed_at_a_write(life: Life) -> None:
    moments = life.recorded()
    for number in range(1, len(moments) + 1):
        left = moments[:number]
        if "effect" in left[-1] or is_held(left, life.names):
            continue
        for kill_after in KILLS if IN_FULL else KILLS[::2]:
            play, fate = there_and_back(life, number, kill_after)
            check_killed(play, fate, life)


def check_killed(play: Play, fate: Fate | None, life: Life) -> None:
    tenant = play.stored("tenants")
    if tenant is None:
        assert is_terminating(play.left)
    elif "deletionTimestamp" in tenant["metadata"]:
        assert (fate is Fate.DELETING) == (life.names.finalizer not in tenant["metadata"]["finalizers"])
    elif tenant_in(play.left) is not None and fate is Fate.UNTRACED:
        assert play.accounts.effects == []
    else:
        assert life.names.finalizer in tenant["metadata"]["finalizers"]
        assert cause_of(tenant, life.names) in (Reason.RESUME, Reason.UPDATE)


# --- kopf itself ----------------------------------------------------------------------------------


def came_back(life: Life) -> Sequence[Play]:
    """A world for each moment after which kopf has the object again, as a whole."""
    plays = [
        there_and_back(life, number)[0]
        for number in range(1, len(life.recorded()) + 1)
        if not is_held(life.recorded()[:number], life.names)
    ]
    return [play for play in plays if play.stored("tenants") is not None]


def renamed(play: Play, number: int) -> dict[str, dict[str, Any]]:
    """Its object and child under a name and with uids of their own."""
    uid, found = f"00000000-0000-0000-0000-{number:012}", {}
    for plural in SERVED:
        obj = json.loads(json.dumps(play.stored(plural)).replace(play.tenant["metadata"]["uid"], uid))
        obj["metadata"]["name"] = f"{NAME}{number}"
        for owner in obj["metadata"].get("ownerReferences", ()):
            owner["name"] = f"{NAME}{number}"
        found[plural] = obj
    found["configmaps"]["metadata"]["uid"] = f"00000000-0000-0000-0001-{number:012}"
    return found


def loaded(plays: Sequence[Play]) -> ApiServer:
    server = ApiServer()
    anyio.run(Client(InProcessTransport(server, settle=True)).apply, definition_of(Tenant))
    for number, play in enumerate(plays):
        for plural, obj in renamed(play, number).items():
            server._engine.put(served_kind(server, plural), obj)
    return server


async def kept_by_kopf(folder: Path, server: ApiServer, life: Life, names: Sequence[str]) -> list[list[Any]]:
    """Have kopf keep them: their spec changes, and they are deleted. Returns what it did outside."""
    ledger, client = folder / "ledger", Client(InProcessTransport(server, settle=True))
    ledger.touch()
    token = SystemClock().uuid().hex
    children = {one.name: one.uid for one in await client.list(ConfigMap, PLACE) if one.name in names}

    def done() -> list[list[Any]]:
        return [json.loads(line) for line in ledger.read_text().splitlines()]

    async def did(*effects: list[Any]) -> bool:
        return all(effect in done() for effect in effects)

    async with serve(server, token=token) as face, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        write_kubeconfig(folder / "kubeconfig", face.url, face.ca_pem, face.token)
        place = ListeningServer(face.url, folder / "kubeconfig", PLACE, real=False)
        environment = {"LEDGER": str(ledger), **life.environment}
        with kopf(place, folder / "log", "tenants_kopf", **environment):
            for name in names:
                change = TenantSpec(NEW_SIZE, "red")
                await client.modify(Tenant, name, PLACE, lambda found, spec=change: found.replace(spec=spec))
            await eventually(lambda: did(*(["resize", name, NEW_SIZE] for name in names)), within=PATIENCE)
            for name in names:
                await client.delete(await client.get(Tenant, name, PLACE))
                child = await client.find(ConfigMap, name, PLACE)
                assert child is None or child.uid == children[name]
            await eventually(lambda: did(*(["close", name] for name in names)), within=PATIENCE)
        tasks.cancel_scope.cancel()
    return done()


@pytest.mark.parametrize("life", LIVES.values() if IN_FULL else [LIVES["plain"]], ids=moment_title)
def test_kopf_itself_goes_on_with_what_was_handed_back_at_each_moment(life: Life, tmp_path: Path) -> None:
    plays = came_back(life)
    assert len(plays) >= 6
    names = [f"{NAME}{number}" for number in range(len(plays))]
    effects = anyio.run(kept_by_kopf, tmp_path, loaded(plays), life, names)
    expected = [["resize", name, NEW_SIZE] for name in names] + [["close", name] for name in names]
    assert sorted(map(json.dumps, effects)) == sorted(map(json.dumps, expected))
