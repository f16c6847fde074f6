"""Shops on a server that converts in process, and the releases of an operator that bring them to v1."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import anyio
import msgspec
from attrs import define, field

from informers.transport import HttpRequest, PassingTransport, Response, Transport
from reconcile.embedded import ApiServer, ConversionFailed, ConversionRequest, InProcessTransport
from reconcile.models import Object
from reconcile.models.conversions import ConversionError
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.webhooks.definition_rollout import DefinitionRollout, Report, Reporting
from reconcile.webhooks.wanted_definitions import WantedDefinition, wanted_definition
from tests.webhooks.shops import GROUP, SHOPS, Shop, ShopAlpha, ShopBeta

WEBHOOK: Final = {
    "conversionReviewVersions": ["v1"],
    "clientConfig": {"service": {"namespace": "shop-system", "name": "shop", "path": "/convert/shops"}},
}
NAME: Final = f"shops.{GROUP}"
DEFINITION: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
KEY: Final = (GROUP, "shops")
FIRST: Final = wanted_definition([ShopBeta, ShopAlpha], WEBHOOK)
"""The release that stores v1beta1."""
SECOND: Final = wanted_definition([Shop, ShopBeta], WEBHOOK)
"""The release that adds v1, which has no class of v1alpha1 any more."""
THIRD: Final = wanted_definition([Shop])


def release(*versions: type[Object]) -> WantedDefinition:
    return wanted_definition(versions, WEBHOOK)


@define(eq=False)
class WithoutMigrations(PassingTransport):
    """Leads to a server that does not serve storagemigration.k8s.io, as before Kubernetes 1.35."""

    _inner: Transport

    async def request(self, request: HttpRequest) -> Response:
        if request.path.startswith("/apis/storagemigration.k8s.io"):
            return Response(404, {}, b"404 page not found")
        return await self._inner.request(request)


@define
class Reports(Reporting):
    heard: list[Report] = field(factory=list)

    def report(self, report: Report) -> None:
        self.heard.append(report)

    @property
    def reasons(self) -> Sequence[str]:
        return [report.reason for report in self.heard]


@define
class Shops:
    """A server with the definition of the first release; `broken` are names that cannot be converted."""

    clock: VirtualClock = field(factory=lambda: VirtualClock(0))
    broken: set[str] = field(factory=set)
    asked: list[str] = field(factory=list)
    reports: Reports = field(factory=Reports)
    migrates: bool = True
    """Whether its control plane carries out StorageVersionMigrations; older ones do not serve them."""
    server: ApiServer = field(init=False)
    transport: Transport = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = ApiServer(clock=self.clock, converter=self._convert)
        transport = InProcessTransport(self.server, settle=True)
        self.transport = transport if self.migrates else WithoutMigrations(transport)

    async def _convert(self, request: ConversionRequest) -> list[dict[str, Any]]:
        self.asked.append(request.api_version)
        for obj in request.objects:
            if obj["metadata"]["name"] in self.broken:
                raise ConversionFailed(f"Shop {obj['metadata']['name']}: broken")
        try:
            return [SHOPS.convert(obj, request.api_version) for obj in request.objects]
        except ConversionError as error:
            raise ConversionFailed(str(error)) from None

    def rollout(self, wanted: WantedDefinition, transport: Transport | None = None) -> DefinitionRollout:
        return DefinitionRollout(
            wanted, transport or self.transport, self.clock, reporting=self.reports, settle=0
        )

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        sent = None if body is None else msgspec.json.encode(body)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = await self.transport.request(HttpRequest(method, path, {}, {"content-type": kind}, sent))
        assert answer.status < 300, answer.body
        read: dict[str, Any] = msgspec.json.decode(answer.body)
        return read

    async def make(self, version: str, name: str, **spec: Any) -> dict[str, Any]:
        body = {"apiVersion": f"{GROUP}/{version}", "kind": "Shop", "metadata": {"name": name}, "spec": spec}
        return await self.ask("POST", path(version), body)

    async def specs(self, version: str) -> Mapping[str, Any]:
        listed = await self.ask("GET", path(version))
        return {item["metadata"]["name"]: item["spec"] for item in listed["items"]}

    async def definition(self) -> dict[str, Any]:
        return await self.ask("GET", DEFINITION)

    def names_stored_as(self, version: str) -> set[str]:
        stored = [one.decode() for one in self.server.log.within(KEY, "default")]
        return {one["metadata"]["name"] for one in stored if one["apiVersion"] == f"{GROUP}/{version}"}

    def stored_as(self) -> set[str]:
        """The versions in which objects are stored."""
        return {stored.decode()["apiVersion"] for stored in self.server.log.within(KEY, "default")}


async def first_release(count: int, *, migrates: bool = True) -> Shops:
    """A server with the first release and so many of its objects."""
    shops = Shops(migrates=migrates)
    assert await shops.rollout(FIRST).finish()
    for number in range(count):
        await shops.make("v1beta1", f"shop-{number}", size=number + 1, motto="open")
    return shops


def path(version: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/shops"


@define(eq=False)
class Killing(PassingTransport):
    """Cancels its process at the request of that number: before it is carried out, or after it."""

    _inner: Transport
    at: int
    late: bool
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    count: int = field(default=0, init=False)

    async def request(self, request: HttpRequest) -> Response:
        dies = self._strikes(request)
        if dies and not self.late:
            await self._die()
        answer = await self._inner.request(request)
        if dies:
            await self._die()
        return answer

    def _strikes(self, request: HttpRequest) -> bool:
        self.count += 1
        return self.count == self.at

    async def _die(self) -> None:
        self.scope.cancel()
        await anyio.sleep_forever()


@define(eq=False)
class Acting(PassingTransport):
    """Does `act` once, before the first request of that method."""

    _inner: Transport
    method: str
    act: Callable[[], Awaitable[object]]
    acted: bool = field(default=False, init=False)

    async def request(self, request: HttpRequest) -> Response:
        if request.method == self.method and not self.acted:
            self.acted = True
            await self.act()
        return await self._inner.request(request)
