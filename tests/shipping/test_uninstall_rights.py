"""The Job of an uninstall has the rights that it uses, for an operator with all that there is."""

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, evolve, field

from informers import HttpRequest, Response, Transport
from informers.transport import PassingTransport
from reconcile import Context, Controller, ObjectMeta
from reconcile.embedded import InProcessTransport, service_account
from reconcile.kinds import Pod
from reconcile.models import definition_of
from reconcile.models.versions import families
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, documents_of
from reconcile.shipping.uninstall_job import uninstall_documents
from reconcile.shipping.uninstall_plan import Mode
from reconcile.testing.recorded_requests import RecordedRequest
from reconcile.webhooks import Admission
from reconcile.webhooks.certificate_secret import LABELS
from reconcile.webhooks.configurations import conversion_of
from reconcile.webhooks.routes import conversion_route, routes_of
from tests.helpers.scenarios import simulated
from tests.shipping.shops import GROUP, HOME, Store, Trade
from tests.shipping.test_uninstall import Dying
from tests.webhooks.shops import Shop


async def keep(ctx: Context[Any]) -> None: ...


def complete(store: Store, request: Any) -> Store:
    return store


def refuse(store: Store, old: Store | None, request: Any) -> list[Any]:
    return []


CONTROLLERS = (
    Controller(
        Store,
        keep,
        cleanup=keep,
        admission=[
            Admission(Store, defaults=complete, refuses=refuse),
            Admission(Pod, rules="object.spec.hostPID != true", operator=GROUP),
        ],
    ),
    Controller(Shop, keep, cleanup=keep),
)
OPERATOR = Installation(
    "trade",
    "trade-lease",
    HOME,
    "trade:1",
    ("trade:manager",),
    CONTROLLERS,
    routes=routes_of(CONTROLLERS),
    review=True,
    tls=True,
)


def definitions() -> Iterator[Document]:
    service = OPERATOR.webhook_service
    assert service is not None
    for versions in families([Store, Shop]):
        route = conversion_route(versions)
        yield definition_of(*versions, conversion=None if route is None else conversion_of(route, service))


@define(eq=False)
class Recording(PassingTransport):
    """Keeps the resource and the verb of each request, and refuses none."""

    _inner: Transport
    seen: set[tuple[str, str]] = field(factory=set)

    async def request(self, request: HttpRequest) -> Response:
        answer = await self._inner.request(request)
        assert answer.status != 403, answer.body
        recorded = RecordedRequest(request.method, request.path, request.query)
        target = recorded.target
        resource = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
        self.seen.add((resource, recorded.verb))
        return answer


async def uninstalled(mode: Mode) -> tuple[Trade, Recording]:
    trade = Trade()
    files = documents_of(OPERATOR, list(definitions()))
    made = [document for file in files.values() for document in file]
    made += uninstall_documents(OPERATOR, keep_data=mode is Mode.KEEP)
    made += [
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named("trade-lease")},
        {**SECRET, "metadata": {**named("trade-webhooks-certificates"), "labels": {**LABELS}}},
        {**SECRET, "metadata": named("trade-other")},
    ]
    made.sort(key=lambda one: ORDER.get(one["kind"], 2))
    for number, document in enumerate(made):
        if ORDER.get(document["kind"], 2) == 2 and number and made[number - 1]["kind"] in ORDER:
            await create_objects(trade, mode)  # before the webhooks, which nothing serves here
        await trade.admin.create(document)
    account = service_account(HOME, "trade-uninstall")
    recording = Recording(InProcessTransport(trade.client.server, settle=True, user=account))
    while True:
        dying = Dying(recording)
        with dying.scope:
            await trade.uninstall(mode, dying).run(60)
        if not dying.scope.cancelled_caught:
            return trade, recording


ORDER = {"Namespace": 0, "CustomResourceDefinition": 1}
SECRET = {"apiVersion": "v1", "kind": "Secret"}
SHOPS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shops.shop.example.com"


def named(name: str) -> Document:
    return {"name": name, "namespace": HOME}


async def create_objects(trade: Trade, mode: Mode) -> None:
    held = ("trade.example.com/store",) if mode is Mode.KEEP else ()
    await trade.admin.create(Store(metadata=ObjectMeta("one", HOME, finalizers=held)))
    held = ("shop.example.com/shop",) if mode is Mode.KEEP else ()
    await trade.admin.create(Shop(metadata=ObjectMeta("one", HOME, finalizers=held)))


@simulated
async def test_what_is_left_after_a_kill_at_each_write_is_deleted_within_exactly_the_rights() -> None:
    used: set[tuple[str, str]] = set()
    for mode in (Mode.DELETE, Mode.KEEP):
        trade, recording = await uninstalled(mode)
        used |= recording.seen
        left = {place for place, _, metadata in trade.everything() if "trade" in metadata["name"]}
        assert {place for place in left if not place.endswith("trade-uninstall")} == {
            f"namespaces {HOME}",
            "secrets trade-other",
            *(["customresourcedefinitions stores.trade.example.com"] if mode is Mode.KEEP else []),
        }
    shops = await trade.find(SHOPS)
    assert shops is not None
    assert shops["spec"]["conversion"] == {"strategy": "None"}
    rules = [rule for one in uninstall_documents(OPERATOR) for rule in one.get("rules", ())]
    granted = {(kind, verb) for rule in rules for kind in rule["resources"] for verb in rule["verbs"]}
    assert used <= granted
    # Objects are stored anew only where several versions are stored.
    assert granted - used == {("customresourcedefinitions/status", "update"), ("shops/status", "patch")}


@pytest.mark.parametrize("namespaces", [(), ("east",)])
def test_objects_in_all_namespaces_may_be_stored_anew(namespaces: tuple[str, ...]) -> None:
    documents = uninstall_documents(evolve(OPERATOR, namespaces=namespaces), keep_data=True)
    (role,) = [one for one in documents if one["kind"] == "ClusterRole"]
    rights = {(kind, verb) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
    assert {("shops", "list"), ("shops", "patch"), ("shops/status", "patch")} <= rights
