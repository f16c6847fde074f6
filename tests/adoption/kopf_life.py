"""The lives of one object under an operator on kopf: what is written and done, in order.

Each file in `lives` has one, so that tests need not wait for kopf. `python -m tests.adoption.kopf_life NAME`
records one anew, with the real kopf against the embedded server; `OLD_KOPF` names the folder of a kopf to
record `old` with (`pip install --no-deps --target FOLDER kopf==1.37.2`).
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from attrs import define, field, frozen

from informers import Key, SystemClock
from reconcile import Client, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.embedded.log import StoredChange
from reconcile.kinds import ConfigMap
from reconcile.models import definition_of
from reconcile.predecessors import KopfTraces, traces_on
from reconcile.predecessors.kopf_traces import LAST_HANDLED
from reconcile.testing import ListeningServer, eventually
from tests.adoption.tenants import Tenant, TenantSpec
from tests.helpers.kopf_process import kopf

RECORDED = Path(__file__).with_name("lives")
NAME, PLACE = "a", "default"
WATCHED = {("example.com", "tenants"), ("", "configmaps")}
PATIENCE = 60.0
LOG_SHOWN = 4000

Moment = dict[str, Any]
"""An `effect` outside of the cluster, or a write to `plural` and the `object` then (None: removed)."""


@frozen
class Life:
    """How one operator on kopf was started: the names under which it works, its environment and its module.

    `heals`: it makes a child anew that has gone.
    """

    name: str
    names: KopfTraces = field(factory=KopfTraces)
    environment: Mapping[str, str] = field(factory=dict)
    operator: str = "tenants_kopf"
    heals: bool = True

    @property
    def file(self) -> Path:
        return RECORDED / f"{self.name}.json"

    def recorded(self) -> list[Moment]:
        life: list[Moment] = json.loads(self.file.read_text())
        return life


_OTHER: Final = KopfTraces("tenants.example.com", "tenants.example.com/on-kopf")
LIVES: Final = {
    life.name: life
    for life in (
        Life("plain"),
        Life("named", _OTHER, {"PREFIX": _OTHER.prefix, "FINALIZER": _OTHER.finalizer, "OPENED_LAST": "yes"}),
        Life("old", environment={"PYTHONPATH": os.environ.get("OLD_KOPF", "")}),
    )
}
"""`plain`: kopf 1.45 with its own names. `named`: with others, and a value that the last handler of the
creation returns. `old`: kopf 1.37, to which many operators are pinned.
"""
STEPPED: Final = Life("stepped", operator="stepped_kopf", heals=False)
"""kopf 1.45, under an operator whose handlers have sub-handlers."""


def title(moment: Moment) -> str:
    """What happened, in words that are the same in each life."""
    if "effect" in moment:
        return " ".join(map(str, moment["effect"]))
    obj = moment["object"] or {"metadata": {}}
    metadata = obj["metadata"]
    marks = sorted(name.partition("/")[2] for name in metadata.get("annotations", ()))
    marks += ["finalizer"] * ("finalizers" in metadata) + ["deleted"] * ("deletionTimestamp" in metadata)
    return f"{moment['plural']}: {', '.join(marks) or ('there' if moment['object'] else 'gone')}"


@define
class Recorder:
    """Listens to the server, and reads the ledger before each write: what is there was done before it."""

    ledger: Path
    life: list[Moment] = field(factory=list)
    _effects: int = 0

    def write(self, change: StoredChange) -> None:
        if change.resource not in WATCHED or change.key != Key(PLACE, NAME):
            return
        self.effects()
        stored = None if change.new is None else change.new.decode()
        self.life.append({"plural": change.resource[1], "object": stored})

    def effects(self) -> None:
        lines = self.ledger.read_text().splitlines()
        self.life += [{"effect": json.loads(line)} for line in lines[self._effects :]]
        self._effects = len(lines)


async def lived(folder: Path, life: Life) -> list[Moment]:
    """Have kopf keep an object that is created, changed, loses its child, and is deleted."""
    server = ApiServer()
    recorder = Recorder(folder / "ledger")
    recorder.ledger.touch()
    client = Client(InProcessTransport(server, settle=True))
    await client.apply(definition_of(Tenant))
    server.log.on_shown(recorder.write)
    token = SystemClock().uuid().hex
    async with serve(server, token=token) as face, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        write_kubeconfig(folder / "kubeconfig", face.url, face.ca_pem, face.token)
        place = ListeningServer(face.url, folder / "kubeconfig", PLACE, real=False)
        environment = {"LEDGER": str(recorder.ledger), **life.environment}
        with kopf(place, folder / "log", life.operator, **environment):
            try:
                await _live(client, life)
            except Exception as error:
                error.add_note((folder / "log").read_text()[-LOG_SHOWN:])
                raise
        tasks.cancel_scope.cancel()
    recorder.effects()
    return recorder.life


async def _live(client: Client, life: Life) -> None:
    names = life.names

    async def handled() -> bool:
        tenant = await client.get(Tenant, NAME, PLACE)
        obj = {"metadata": {"annotations": {**tenant.metadata.annotations}}}
        (copy, *_) = names.names_of(LAST_HANDLED)
        last = json.loads(tenant.metadata.annotations.get(copy, "{}"))
        return bool(
            last.get("spec", {}).get("size") == tenant.spec.size and not traces_on(obj, names).progress
        )

    async def child() -> ConfigMap | None:
        return await client.find(ConfigMap, NAME, PLACE)

    async def gone() -> bool:
        return await client.find(Tenant, NAME, PLACE) is None and await child() is None

    meta = ObjectMeta(NAME, PLACE)
    await client.create(Tenant(metadata=meta, spec=TenantSpec(size=1, color="red")))
    await eventually(handled, within=PATIENCE)
    await client.modify(Tenant, NAME, PLACE, lambda found: found.replace(spec=TenantSpec(2, "red")))
    await eventually(handled, within=PATIENCE)
    if life.heals:
        await client.delete(await client.get(ConfigMap, NAME, PLACE))
        await eventually(child, within=PATIENCE)
    await client.delete(await client.get(Tenant, NAME, PLACE))
    await eventually(gone, within=PATIENCE)


def live_anew(life: Life) -> list[Moment]:
    """Live it with the kopf that is installed."""
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(lived, Path(folder), life)


def _as_text(life: Sequence[Moment]) -> str:
    return "[\n" + ",\n".join(json.dumps(moment) for moment in life) + "\n]\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        lives = {**LIVES, STEPPED.name: STEPPED}
        lives[name].file.write_text(_as_text(live_anew(lives[name])))
