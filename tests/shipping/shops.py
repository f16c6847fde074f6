"""An operator under the rights of its manifests, and its uninstall under those of its Job, in virtual time.

A shop owns a till, a till a ConfigMap; both are held with a finalizer until a cleanup has run. An audit holds
Secrets of others.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import define, field, frozen

from informers import NotFound, Transport
from reconcile import Client, Context, Controller, Manager, Object, ObjectMeta, resource
from reconcile.embedded import ADMIN, InProcessTransport, service_account
from reconcile.kinds import ConfigMap, Secret
from reconcile.manager.option_list import from_flags
from reconcile.models import definition_of
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, documents_of
from reconcile.shipping.uninstall import Uninstall
from reconcile.shipping.uninstall_job import uninstall_documents
from reconcile.shipping.uninstall_plan import Finished, Mode
from reconcile.testing import FakeClient, eventually

GROUP = "trade.example.com"
HOME = "trade-system"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{HOME}/deployments/trade"
POD = f"/api/v1/namespaces/{HOME}/pods/trade-0"


@frozen
class Nothing:
    note: str = ""


@resource(f"{GROUP}/v1")
class Store(Object):
    spec: Nothing = Nothing()


@resource(f"{GROUP}/v1")
class Till(Object):
    spec: Nothing = Nothing()


def controllers(cleaned: list[str], still: Sequence[str] = ()) -> Sequence[Controller[Any]]:
    """`cleaned` gets each object that was cleaned up; the cleanup of those in `still` never ends."""

    async def open_store(ctx: Context[Store]) -> None:
        await ctx.apply(Till(metadata=ObjectMeta(ctx.object.name, ctx.object.namespace)))

    async def open_till(ctx: Context[Till]) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(ctx.object.name, ctx.object.namespace), data={}))

    async def audit(ctx: Context[Secret]) -> None: ...

    async def clean(ctx: Context[Any]) -> None:
        if ctx.object.name in still:
            raise RuntimeError("not yet")
        cleaned.append(f"{type(ctx.object).__name__} {ctx.object.name}")

    return [
        Controller(Store, open_store, cleanup=clean, owns=[Till]),
        Controller(Till, open_till, cleanup=clean, owns=[ConfigMap]),
        Controller(Secret, audit, cleanup=clean, operator=GROUP, name="audit"),
    ]


@define(eq=False)
class Trade:
    """The operator `trade` in a cluster of its own."""

    namespaces: Sequence[str] = ()
    ring: tuple[str, str] | None = None
    still: Sequence[str] = ()
    cleaned: list[str] = field(factory=list)
    client: FakeClient = field(init=False)
    admin: Client = field(init=False)
    lines: list[str] = field(factory=list)
    refused: list[str] = field(factory=list)
    alive: bool = False

    def __attrs_post_init__(self) -> None:
        self.client = FakeClient()
        self.admin = self.as_user(ADMIN)

    @property
    def installation(self) -> Installation:
        return Installation(
            "trade",
            "trade-lease",
            HOME,
            "trade:1",
            ("trade:manager",),
            controllers(self.cleaned, self.still),
            ring=self.ring,
            namespaces=self.namespaces,
        )

    def as_user(self, user: Any) -> Client:
        return Client(InProcessTransport(self.client.server, settle=True, user=user), clock=self.client.clock)

    def documents(self) -> Sequence[Document]:
        kinds = [definition_of(Store), definition_of(Till)]
        files = documents_of(self.installation, kinds)
        return [document for file in files.values() for document in file]

    async def install(self, keep_data: bool = False) -> None:
        later = []
        for name in (*self.namespaces, "east", "west"):
            if await self.find(f"/api/v1/namespaces/{name}") is None:
                await self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for document in (*self.documents(), *uninstall_documents(self.installation, keep_data)):
            if document["kind"] == "Namespace":
                await self.admin.create(document)
            else:
                later.append(document)
        for document in later:
            await self.admin.create(document)
        await self.start_pod()

    async def start_pod(self) -> None:
        labels = {"app.kubernetes.io/name": "trade", "app.kubernetes.io/instance": "trade"}
        spec = {"containers": [{"name": "manager", "image": "trade:1"}]}
        metadata = {"name": "trade-0", "namespace": HOME, "labels": labels}
        await self.admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def fill(self, count: int = 2) -> None:
        for number in range(count):
            for namespace in ("east", "west"):
                await self.admin.create(Store(metadata=ObjectMeta(f"store-{number}", namespace)))

    async def find(self, path: str) -> Document | None:
        try:
            return self.client.request("GET", path)
        except NotFound:
            return None

    async def pod(self) -> None:
        """What a kubelet and the Deployment controller do: the manager runs while the Deployment wants it."""
        (deployment,) = [one for one in self.documents() if one["kind"] == "Deployment"]
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        flags = dict(one.removeprefix("--").split("=", 1) for one in arguments if "=" in one)
        named = ("namespaces", "leader-election", "sharding")
        taken = {name.replace("-", "_"): flags[name] for name in named if name in flags}
        manager = Manager(
            *self.installation.controllers, environ={}, clock=self.client.clock, sync_seconds=20
        )
        account = self.as_user(service_account(HOME, "trade"))
        manager = manager.on(account.transport)
        manager.configure(from_flags(taken))
        async with manager:
            self.alive = True
            while await self.wanted():
                await anyio.sleep(1)
        self.alive = False
        if await self.find(POD) is not None:
            self.client.request("DELETE", POD, {"gracePeriodSeconds": 0})

    async def wanted(self) -> bool:
        deployment = await self.find(DEPLOYMENT)
        return deployment is not None and deployment["spec"]["replicas"] > 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.pod)
            yield
            group.cancel_scope.cancel()

    async def opened(self, count: int) -> None:
        """Wait until that many tills are there, and the ConfigMap of each."""

        async def open_now() -> bool:
            names = [one.name for one in await self.admin.list(ConfigMap) if one.name.startswith("store-")]
            return len(names) == count

        await eventually(open_now, within=120)

    def uninstall(self, mode: Mode = Mode.DELETE, transport: Transport | None = None) -> Uninstall:
        user = service_account(HOME, "trade-uninstall")
        inner = InProcessTransport(self.client.server, settle=True, user=user)
        return Uninstall("trade", HOME, mode, transport or inner, self.client.clock, self.lines.append)

    async def uninstalled(self, mode: Mode = Mode.DELETE, timeout: float = 300) -> Finished:
        return await self.uninstall(mode).run(timeout)

    def left(self) -> set[str]:
        """Everything that is left and names the operator, has its label, or is of its kinds."""
        return {
            place
            for place, group, metadata in self.everything()
            if group == GROUP
            or (metadata.get("labels") or {}).get("app.kubernetes.io/name") == "trade"
            or any(name.startswith(GROUP) for name in metadata.get("finalizers") or ())
            or "coordination" in group
        }

    def everything(self) -> Iterator[tuple[str, str, Document]]:
        log = self.client.server.log
        for group, plural in list(log.resources()):
            for stored in log.snapshot((group, plural)):
                metadata = stored.decode()["metadata"]
                yield f"{plural} {metadata['name']}", group, metadata
