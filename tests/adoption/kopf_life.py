"""The life of one object under an operator on kopf: what is written and done, in order.

`kopf_life.json` has one life, so that tests need not wait for kopf. `python -m tests.adoption.kopf_life`
records it anew, with the real kopf against the embedded server.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from attrs import define, field

from informers import Key, SystemClock
from reconcile import Client, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.embedded.log import StoredChange
from reconcile.kinds import ConfigMap
from reconcile.models import definition_of
from reconcile.testing import ListeningServer, eventually
from tests.adoption.tenants import Tenant, TenantSpec
from tests.helpers.kopf_process import kopf

RECORDED = Path(__file__).with_suffix(".json")
NAME, PLACE = "a", "default"
WATCHED = {("example.com", "tenants"), ("", "configmaps")}
PATIENCE = 240.0
LOG_SHOWN = 4000

Moment = dict[str, Any]
"""An `effect` outside of the cluster, or a write to `plural` and the `object` then (None: removed)."""


def recorded() -> list[Moment]:
    """The life in `kopf_life.json`."""
    life: list[Moment] = json.loads(RECORDED.read_text())
    return life


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


async def lived(folder: Path) -> list[Moment]:
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
        with kopf(place, folder / "log", "tenants_kopf", LEDGER=str(recorder.ledger)):
            try:
                await _live(client)
            except Exception as error:
                error.add_note((folder / "log").read_text()[-LOG_SHOWN:])
                raise
        tasks.cancel_scope.cancel()
    recorder.effects()
    return recorder.life


async def _live(client: Client) -> None:
    async def handled() -> bool:
        tenant = await client.get(Tenant, NAME, PLACE)
        annotations = tenant.metadata.annotations
        last = json.loads(annotations.get("kopf.zalando.org/last-handled-configuration", "{}"))
        return bool(last.get("spec", {}).get("size") == tenant.spec.size and len(annotations) == 1)

    async def child() -> ConfigMap | None:
        return await client.find(ConfigMap, NAME, PLACE)

    async def gone() -> bool:
        return await client.find(Tenant, NAME, PLACE) is None and await child() is None

    meta = ObjectMeta(NAME, PLACE)
    await client.create(Tenant(metadata=meta, spec=TenantSpec(size=1, color="red")))
    await eventually(handled, within=PATIENCE)
    await client.modify(Tenant, NAME, PLACE, lambda found: found.replace(spec=TenantSpec(2, "red")))
    await eventually(handled, within=PATIENCE)
    await client.delete(await client.get(ConfigMap, NAME, PLACE))
    await eventually(child, within=PATIENCE)
    await client.delete(await client.get(Tenant, NAME, PLACE))
    await eventually(gone, within=PATIENCE)


def live_anew() -> list[Moment]:
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(lived, Path(folder))


def _as_text(life: Sequence[Moment]) -> str:
    return "[\n" + ",\n".join(json.dumps(moment) for moment in life) + "\n]\n"


if __name__ == "__main__":
    RECORDED.write_text(_as_text(live_anew()))
