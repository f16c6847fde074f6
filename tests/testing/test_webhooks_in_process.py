"""The webhooks of a controller under test: called by its server as in a cluster, without a socket."""

import logging
from collections.abc import Iterator
from typing import get_args

import pytest

from informers import Invalid, ServerError
from reconcile import Context, Controller, Intent, ObjectMeta
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.testing import (
    Apply,
    Broken,
    Edit,
    FakeClient,
    Fault,
    FaultPlan,
    FaultyTransport,
    ManagerRunner,
    Scenario,
    VirtualCluster,
    When,
    World,
    assert_deterministic,
    eventually,
    fuzz,
    replay,
    run_once,
    sweep,
)
from reconcile.testing.faults import CallFailure, FailCall
from reconcile.testing.scenario_modes import _single_faults
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.webhooks import Admission, Refusal
from tests.testing.shop_operator import ADMISSION, a_shop, fill_color, keep_shop, shops
from tests.testing.site_operator import Site, keep_site, site
from tests.webhooks.shops import Shop, ShopAlpha, ShopBeta, ShopSpecBeta

SHOPS = "/apis/shop.example.com/v1/namespaces/default/shops"


pytestmark = pytest.mark.rule("kit-webhooks")


async def test_a_fake_client_completes_and_refuses_writes_as_a_server_does() -> None:
    client = FakeClient(shops())
    made = await client.create(a_shop())
    assert made.spec.color == "red"
    with pytest.raises(Invalid, match=r"spec.replicas: must not be negative") as refused:
        await client.create(a_shop("other", replicas=-1))
    assert 'admission webhook "refuses.shops.shop.example.com" denied the request' in str(refused.value)


async def test_a_run_makes_the_webhooks_of_its_controller_known() -> None:
    client = FakeClient(a_shop())
    report = await run_once(shops(), "corner", client)
    assert report.writes == ["apply configmaps default/corner"]
    assert (await client.get(ConfigMap, "corner", "default")).data["color"] == "none"
    assert (await client.create(a_shop("other"))).spec.color == "red"


def test_objects_that_a_test_adds_are_admitted_outside_an_event_loop_too() -> None:
    client = FakeClient(a_shop(), shops())
    assert client.add(a_shop("other"))["spec"]["color"] == "red"
    with pytest.raises(Invalid):
        client.add(a_shop("third", replicas=-1))


async def test_admission_is_that_of_the_last_controller_of_a_name() -> None:
    client = FakeClient(shops())
    client.serve(Controller(Shop, keep_shop, owns=[ConfigMap]))
    assert (await client.create(a_shop())).spec.color is None
    client.serve(shops())
    assert (await client.create(a_shop("other"))).spec.color == "red"


async def test_webhooks_are_chosen_by_the_rules_of_the_server() -> None:
    labelled = Admission(Shop, defaults=fill_color, conditions={"big": "object.spec.replicas > 5"})
    client = FakeClient(Controller(Shop, keep_shop, owns=[ConfigMap], admission=labelled))
    assert (await client.create(a_shop("small"))).spec.color is None
    assert (await client.create(a_shop("big", replicas=6))).spec.color == "red"


async def test_all_versions_of_a_kind_are_served_and_converted() -> None:
    client = FakeClient(a_shop(replicas=3, tier="gold"))
    assert (await client.get(ShopBeta, "corner", "default")).spec.size == 3
    assert [one.spec.count for one in await client.list(ShopAlpha)] == [3]
    await client.create(ShopBeta(metadata=a_shop("beta").metadata, spec=ShopSpecBeta(size=2)))
    assert (await client.get(Shop, "beta", "default")).spec.replicas == 2
    async with client.editing(await client.get(ShopAlpha, "corner", "default")) as draft:
        draft.spec.count = 4
    corner = await client.get(Shop, "corner", "default")
    assert (corner.spec.replicas, corner.spec.tier) == (4, "gold")


async def test_writes_in_an_older_version_are_admitted_in_the_version_of_the_functions() -> None:
    client = FakeClient(shops())
    await client.create(ShopBeta(metadata=a_shop().metadata, spec=ShopSpecBeta(size=2)))
    assert (await client.get(Shop, "corner", "default")).spec.color == "red"
    with pytest.raises(Invalid, match=r"must not be negative"):
        await client.create(ShopBeta(metadata=a_shop("other").metadata, spec=ShopSpecBeta(size=-2)))


async def test_a_manager_on_a_simulated_cluster_meets_its_own_webhooks(
    cluster: VirtualCluster, manager: ManagerRunner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "reconcile")
    async with manager(shops()):
        await cluster.client.create(a_shop())
        page = await eventually(lambda: cluster.client.find(ConfigMap, "corner", "default"))
        assert page.data["color"] == "red"
    assert {line.levelno for line in caplog.records} == {logging.INFO}


async def test_the_check_for_determinism_admits_as_a_run_does() -> None:
    client = FakeClient(shops(), a_shop())
    await assert_deterministic(shops(), "corner", client)


async def test_a_built_in_kind_is_admitted_and_passes_if_its_function_fails() -> None:
    def broken(page: ConfigMap, old: ConfigMap | None, request: object) -> Iterator[Refusal]:
        yield Refusal(page.data["reason"])

    admission = Admission(ConfigMap, refuses=broken, operator="kit.example.com")
    client = FakeClient(Controller(Site, keep_site, owns=[ConfigMap], admission=admission))
    with pytest.raises(Invalid, match="because"):
        await client.create(ConfigMap(metadata=ObjectMeta("page", "default"), data={"reason": "because"}))
    assert await client.create(ConfigMap(metadata=ObjectMeta("page", "default")))


# --- faults of calls ------------------------------------------------------------------------------


async def keep_branch(ctx: Context[Site]) -> None:
    spec = ShopSpecBeta(size=len(ctx.object.spec.text))
    await ctx.apply(Intent(ShopBeta, metadata=ObjectMeta(ctx.object.name), spec=spec))


def branches() -> Controller[Site]:
    """Writes a kind that its own webhooks admit, in another version than the stored one."""
    return Controller(Site, keep_branch, owns=[ShopBeta], admission=ADMISSION)


def shop_is_painted(world: World) -> None:
    for shop in world.objects(Shop):
        assert shop.spec.color == "red"
        assert shop.spec.replicas == world.objects(ShopBeta)[0].spec.size


BRANCH = Scenario(controllers=branches, steps=[Apply(site())], invariants=[shop_is_painted])
CALLED = (
    "/defaults/shops.shop.example.com",
    "/refuses/shops.shop.example.com",
    "/convert/shops.shop.example.com",
)


@pytest.mark.rule("sim-webhooks")
@pytest.mark.parametrize(
    ("path", "how"),
    [
        (path, how)
        for path in CALLED
        for how in get_args(CallFailure)
        if how != "unconvertible" or path == CALLED[2]
    ],
)
def test_a_controller_recovers_from_each_fault_of_a_webhook(path: str, how: CallFailure) -> None:
    run = replay(BRANCH, FaultPlan([Fault(When(path=path, times=3), FailCall(how))]))
    (process,) = run.world.processes
    happened = [line for line in process.transport.applied if "FailCall" in line]
    assert len(happened) == 3
    assert all(f"call of {path}: " in line for line in happened)


def test_a_slow_webhook_delays_a_write_by_its_time_limit() -> None:
    plan = FaultPlan([Fault(When(path="/refuses/*"), FailCall("slow"))])
    (process,) = replay(BRANCH, plan).world.processes
    late = next(one for one in process.transport.requests if one.mutating and one.status == 500)
    after = next(one for one in process.transport.requests if one.mutating and one.at > late.at)
    assert after.at - late.at >= 5


@pytest.mark.rule("sim-webhooks")
def test_a_sweep_makes_every_webhook_that_was_called_fail() -> None:
    report = sweep(BRANCH)
    without = sweep(BRANCH, most=1)
    assert report.runs == without.in_full
    assert len(webhook_plans(BRANCH)) >= 3 * 5 + 1


def webhook_plans(scenario: Scenario) -> list[FaultPlan]:
    first = ScenarioRunner(scenario).run(FaultPlan(), record_events=True)
    found = list(_single_faults(first, scenario, 0))
    return [plan for plan in found if isinstance(plan.faults[0].what, FailCall)]


@pytest.mark.rule("sim-webhooks")
def test_a_sweep_finds_a_controller_that_gives_up_while_a_webhook_is_down() -> None:
    async def give_up(ctx: Context[Site]) -> None:
        try:
            await keep_branch(ctx)
        except ServerError:
            return  # and never tries again

    hasty = Scenario(
        controllers=lambda: Controller(Site, give_up, owns=[ShopBeta], admission=ADMISSION),
        steps=[Apply(site())],
    )
    with pytest.raises(Broken) as broken:
        sweep(hasty)
    (fault,) = broken.value.plan.faults
    assert isinstance(fault.what, FailCall)
    assert fault.when.times == 1
    assert FaultPlan.from_json(broken.value.plan.to_json()) == broken.value.plan


@pytest.mark.rule("sim-webhooks")
def test_fuzzing_draws_faults_of_webhooks() -> None:
    assert fuzz(BRANCH, most=25, seconds=60).runs == 25


def test_acts_of_users_meet_no_fault_of_a_webhook() -> None:
    scenario = Scenario(
        controllers=shops, steps=[Apply(a_shop()), Edit(f"{SHOPS}/corner", {"spec": {"replicas": 2}})]
    )
    faults = [Fault(When(path=path, times=None), FailCall("down")) for path in CALLED[:2]]
    run = replay(scenario, FaultPlan(faults))
    assert run.world.objects(Shop)[0].spec.replicas == 2


def test_a_fault_of_a_call_needs_a_server_in_this_process() -> None:
    with pytest.raises(ValueError, match="FailCall need an embedded server"):
        FaultyTransport(InProcessTransport(FakeClient().server), FaultPlan([Fault(When(), FailCall())]))
