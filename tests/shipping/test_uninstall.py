"""An operator is uninstalled while it runs, under the rights of its Job, and nothing hangs afterwards."""

import anyio
import pytest
from attrs import define, field

from informers import HttpRequest, Response, Transport
from informers.transport import PassingTransport
from reconcile import ObjectMeta
from reconcile.embedded import InProcessTransport, service_account
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.shipping.uninstall import UninstallStuck
from reconcile.shipping.uninstall_plan import Mode
from reconcile.webhooks.calling_objects import Definition
from tests.helpers.scenarios import simulated
from tests.shipping.shops import GROUP, HOME, POD, Store, Till, Trade

NAMESPACE = f"namespaces {HOME}"
DEFINITIONS = {f"customresourcedefinitions {plural}.{GROUP}" for plural in ("stores", "tills")}
STORES = {"stores store-0", "stores store-1", "tills store-0", "tills store-1"}


async def maps(trade: Trade) -> list[str]:
    """What the tills made."""
    found = await trade.admin.list(ConfigMap)
    return sorted(f"{one.namespace}/{one.name}" for one in found if one.name.startswith("store"))


@pytest.mark.parametrize("ring", [None, (HOME, "ring")])
@simulated
async def test_after_an_uninstall_only_the_namespace_is_left(ring: tuple[str, str] | None) -> None:
    trade = Trade(ring=ring)
    await trade.install()
    async with trade.running():
        await trade.fill()
        await trade.opened(4)
        finished = await trade.uninstalled()
        assert not trade.alive
    assert trade.left() == {NAMESPACE}
    assert finished.notes == [f"the namespace {HOME} stays"]
    assert {*trade.cleaned} == {"Store store-0", "Store store-1", "Till store-0", "Till store-1"}
    assert await maps(trade) == []


@simulated
async def test_data_that_is_kept_can_be_deleted_later_without_the_operator() -> None:
    trade = Trade()
    await trade.install(keep_data=True)
    async with trade.running():
        await trade.fill()
        await trade.admin.create(Secret(metadata=ObjectMeta("till", "east")))
        await trade.opened(4)
        finished = await trade.uninstalled(Mode.KEEP)
    assert trade.left() == {NAMESPACE, *DEFINITIONS, *STORES}
    assert "stay" in finished.notes[0]
    assert trade.cleaned == []
    assert len(await maps(trade)) == 4
    for store in await trade.admin.list(Store):
        await trade.admin.delete(store)
    await trade.admin.delete(await trade.admin.get(Secret, "till", "east"))
    await anyio.sleep(30)
    assert trade.left() == {NAMESPACE, *DEFINITIONS}


@simulated
async def test_what_orphaned_objects_own_stays() -> None:
    trade = Trade()
    await trade.install()
    async with trade.running():
        await trade.fill()
        await trade.opened(4)
        await trade.uninstalled(Mode.ORPHAN)
    assert trade.left() == {NAMESPACE}
    assert trade.cleaned == []
    assert len(await maps(trade)) == 4


RBAC = "rbac.authorization.k8s.io"
READER = {"name": "reader", "namespace": "east", "labels": {"app.kubernetes.io/name": "trade"}}
APPLICATION = (
    {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": READER, "rules": []},
    {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": READER,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "east"}],
    },
)
"""Of an application that has the operator's name, beside the objects of the operator."""


@simulated
async def test_who_collects_metrics_loses_the_right_with_the_operator() -> None:
    trade = Trade()
    await trade.install()
    head = {"name": "trade-metrics-reader", "labels": {"app.kubernetes.io/name": "trade"}}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": head["name"]}
    prometheus = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}
    for document in (
        {"kind": "ClusterRole", "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
        {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [prometheus]},
    ):
        await trade.admin.create({"apiVersion": f"{RBAC}/v1", "metadata": head, **document})
    async with trade.running():
        await trade.uninstalled()
    assert trade.left() == {NAMESPACE}


@simulated
async def test_an_operator_of_some_namespaces_leaves_objects_in_others_and_definitions() -> None:
    trade = Trade(namespaces=("east",))
    await trade.install()
    for document in APPLICATION:
        await trade.admin.create(document)
    async with trade.running():
        await trade.fill()
        await trade.opened(2)
        finished = await trade.uninstalled()
    of_others = {"roles reader", "rolebindings reader", "stores store-0", "stores store-1"}
    assert trade.left() == {NAMESPACE, *DEFINITIONS, *of_others}
    assert {one.namespace for one in await trade.admin.list(Store)} == {"west"}
    assert "other namespaces than east" in finished.notes[0]
    again = await trade.uninstalled()
    assert "no Deployment" in again.notes[0]
    assert len(await trade.admin.list(Store)) == 2


# --- killed ---------------------------------------------------------------------------------------------


@define(eq=False)
class Dying(PassingTransport):
    """Cancels its process after its first write that is answered."""

    _inner: Transport
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)

    async def request(self, request: HttpRequest) -> Response:
        answer = await self._inner.request(request)
        if request.method != "GET":
            self.scope.cancel()
            await anyio.sleep_forever()
        return answer


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        (Mode.DELETE, {NAMESPACE}),
        (Mode.ORPHAN, {NAMESPACE}),
        (Mode.KEEP, {NAMESPACE, *DEFINITIONS, *STORES}),
    ],
)
@simulated
async def test_an_uninstall_that_is_killed_after_each_write_comes_to_its_end(
    mode: Mode, left: set[str]
) -> None:
    trade = Trade()
    await trade.install()
    deaths = 0
    async with trade.running():
        await trade.fill()
        await trade.opened(4)
        while True:
            account = service_account(HOME, "trade-uninstall")
            dying = Dying(InProcessTransport(trade.client.server, settle=True, user=account))
            with dying.scope:
                await trade.uninstall(mode, dying).run(300)
            if not dying.scope.cancelled_caught:
                break
            deaths += 1
    assert deaths > 10
    assert trade.left() == left
    assert (len(await maps(trade)) == 0) == (mode is Mode.DELETE)


@simulated
async def test_a_second_uninstall_finds_nothing_to_do() -> None:
    trade = Trade()
    await trade.install()
    async with trade.running():
        await trade.uninstalled()
    before = trade.client.server.version
    await trade.uninstalled()
    assert trade.client.server.version == before


# --- stuck ----------------------------------------------------------------------------------------------


@simulated
async def test_what_is_stuck_is_named_with_the_finalizer_and_whose_it_is() -> None:
    trade = Trade(still=("store-1",))
    await trade.install()
    async with trade.running():
        await trade.fill()
        await trade.opened(4)
        with pytest.raises(UninstallStuck) as stuck:
            await trade.uninstalled(timeout=60)
    said = str(stuck.value)
    assert "not uninstalled within 60 s: 2 stores.trade.example.com left (east/store-1, west/store-1)" in said
    assert f"2 wait for {GROUP}/store of this operator" in said
    assert "reconcile doctor" in said
    assert trade.client.request("GET", f"/apis/apps/v1/namespaces/{HOME}/deployments/trade")


@simulated
async def test_without_a_running_operator_its_cleanup_is_not_skipped_unasked() -> None:
    trade = Trade()
    await trade.install()
    async with trade.running():
        await trade.fill()
        await trade.opened(4)
    trade.client.request(
        "PATCH", f"/apis/apps/v1/namespaces/{HOME}/deployments/trade", {"spec": {"replicas": 0}}
    )
    with pytest.raises(
        UninstallStuck, match=r"does not run.*--replicas=1, or skip the cleanup with --orphan"
    ):
        await trade.uninstalled()
    assert not any("deletionTimestamp" in metadata for *_, metadata in trade.everything())
    trade.client.request("DELETE", f"/api/v1/namespaces/{HOME}/pods/trade-0", {"gracePeriodSeconds": 0})
    await trade.uninstalled(Mode.ORPHAN)
    assert trade.left() == {NAMESPACE}


@simulated
async def test_an_operator_that_goes_with_its_namespace_lets_its_objects_go_with_an_event() -> None:
    trade = Trade()
    await trade.install()
    async with trade.running():
        await trade.fill(1)
        await trade.admin.create(Store(metadata=ObjectMeta("own", HOME)))
        await trade.opened(2)
    trade.client.request("DELETE", f"/api/v1/namespaces/{HOME}")
    await anyio.sleep(30)
    assert "stores own" in trade.left()
    await trade.uninstall(transport=trade.admin.transport).run(300)
    await anyio.sleep(30)
    assert trade.left() == set()
    events = trade.client.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    notes = [event["note"] for event in events if event["reason"] == "LetGo"]
    assert any("stores.trade.example.com trade-system/own" in note for note in notes)
    assert all(event["regarding"]["name"] == HOME for event in events if event["reason"] == "LetGo")


@simulated
async def test_what_hangs_since_the_operator_was_deleted_beside_it_is_let_go_when_asked() -> None:
    trade = Trade()
    await trade.install()
    async with trade.running():
        await trade.fill()
        await trade.opened(4)
    for kind in ("clusterroles", "clusterrolebindings"):
        trade.client.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/trade")
    trade.client.request("DELETE", POD, {"gracePeriodSeconds": 0})
    await trade.admin.delete(await trade.admin.get(Namespace, HOME))
    for definition in await trade.admin.list(Definition, labels="app.kubernetes.io/name=trade"):
        await trade.admin.delete(definition)
    await anyio.sleep(30)
    assert trade.left() == {*DEFINITIONS, *STORES}
    uninstall = trade.uninstall(transport=trade.admin.transport)
    told = (await uninstall.run(60)).notes
    assert told[0].startswith("4 stores.trade.example.com, 4 tills.trade.example.com wait for a cleanup")
    assert trade.left() >= STORES
    uninstall.mode = Mode.ORPHAN
    await uninstall.run(60)
    await anyio.sleep(60)
    assert trade.left() == set()


@simulated
async def test_a_namesake_in_another_namespace_is_left_alone() -> None:
    trade = Trade()
    await trade.install()
    before = {path for path, *_ in trade.everything()}
    uninstall = trade.uninstall(transport=trade.admin.transport)
    uninstall.namespace = "elsewhere"
    async with trade.running():
        await trade.fill(1)
        await trade.opened(2)
        finished = await uninstall.run(60)
        assert trade.alive
    assert before - {path for path, *_ in trade.everything()} == set()
    assert len(await trade.admin.list(Till)) == 2
    assert "no Deployment elsewhere/trade" in finished.notes[0]


@pytest.mark.parametrize(("mode", "home"), [(Mode.DELETE, HOME), (Mode.ORPHAN, HOME), (Mode.ORPHAN, "west")])
@simulated
async def test_what_is_also_of_a_namesake_is_not_deleted_and_not_let_go(mode: Mode, home: str) -> None:
    trade = Trade()
    await trade.install()
    (deployment,) = [one for one in trade.documents() if one["kind"] == "Deployment"]
    await trade.admin.create({**deployment, "metadata": {**deployment["metadata"], "namespace": "east"}})
    async with trade.running():
        await trade.fill(1)
        await trade.opened(2)
        before = {path for path, *_ in trade.everything()}
        uninstall = trade.uninstall(mode, trade.admin.transport)
        uninstall.namespace = home
        with pytest.raises(UninstallStuck, match=r"operator trade in .*east.*--keep-data"):
            await uninstall.run(60)
        assert trade.alive
        assert before - {path for path, *_ in trade.everything()} == set()
        assert not any("deletionTimestamp" in metadata for *_, metadata in trade.everything())
        uninstall.namespace, uninstall.mode = HOME, Mode.KEEP
        await uninstall.run(60)
    assert len(await trade.admin.list(Till)) == 2
