"""The operator's tests: its decisions, run by run, and then every single fault."""

import os
from datetime import timedelta

from attrs import evolve
from canaries import Canary, CanarySpec, canaries

from reconcile import Context, Controller, ObjectMeta, Write
from reconcile.kinds import Deployment
from reconcile.testing import Apply, Edit, FakeClient, RunReport, Scenario, World, run_once, sweep

RUNS = int(os.environ.get("SWEEP_RUNS", "25")) or None  # of the sweep; 0: all
STEP = 60.0
SPEC = CanarySpec("shop:1", steps=(20, 50), step_time=timedelta(seconds=STEP))
SHOP = Canary(metadata=ObjectMeta("shop", "default"), spec=SPEC)


async def keep_pods(ctx: Context[Deployment]) -> None:
    """Simulates the cluster: pods exist at once, and are available unless their image is bad."""
    wanted = ctx.object.spec.replicas or 0
    ready = 0 if image_of(ctx.object).endswith("bad") else wanted
    ctx.status(
        observed_generation=ctx.object.metadata.generation,
        replicas=wanted,
        updated_replicas=wanted,
        ready_replicas=ready,
        available_replicas=ready,
    )


pods = Controller(
    Deployment, keep_pods, writes=[Write(Deployment, "patch", subresource="status")], operator="example.com"
)


def image_of(deployment: Deployment) -> str:
    return str(deployment.spec.template.spec.containers[0].image)


async def decided(client: FakeClient) -> RunReport:
    """Run the operator until there is nothing more to decide."""
    done = await run_once(canaries, SHOP, client)
    assert done.undeclared == []
    return await decided(client) if done.result.requeue else done


async def a_step(client: FakeClient) -> RunReport:
    """Let pods start, and the time of a step pass."""
    await decided(client)
    for deployment in await client.list(Deployment):
        await run_once(pods, deployment, client)
    done = await decided(client)
    client.clock.advance(STEP)
    return done


async def sizes(client: FakeClient) -> dict[str, int | None]:
    return {f"{one.name} {image_of(one)}": one.spec.replicas for one in await client.list(Deployment)}


async def a_shop_that_gets(image: str) -> FakeClient:
    client = FakeClient(SHOP)
    await a_step(client)
    newer = evolve(SPEC, image=image)
    await client.modify(Canary, "shop", "default", lambda shop: shop.replace(spec=newer))
    return client


async def test_a_first_image_needs_no_trial_and_a_settled_canary_writes_nothing() -> None:
    client = FakeClient(SHOP)
    done = await a_step(client)
    assert await sizes(client) == {"shop-stable shop:1": 10}
    assert done.conditions["Ready"]["status"] == "True"
    assert done.writes == []


async def test_a_new_image_gets_a_growing_share_and_then_all() -> None:
    client = await a_shop_that_gets("shop:2")
    shares: list[dict[str, int | None]] = []
    for _ in range(3):
        await a_step(client)
        shares.append(await sizes(client))
    assert shares == [
        {"shop-stable shop:1": 10, "shop-canary shop:2": 3},  # 3 of 13 are 20 % and a bit
        {"shop-stable shop:1": 10, "shop-canary shop:2": 10},
        {"shop-stable shop:2": 10},
    ]


async def test_an_image_that_is_not_available_in_time_is_rolled_back() -> None:
    client = await a_shop_that_gets("shop:2-bad")
    await a_step(client)
    done = await run_once(canaries, SHOP, client)
    assert done.events == ["Warning RolledBack: shop:2-bad was not available within 0:01:00"]
    done = await a_step(client)
    assert await sizes(client) == {"shop-stable shop:1": 10}
    assert done.conditions["Ready"]["reason"] == "Refused"
    assert done.result.requeue_after is None  # it waits for another image, and for nothing else


async def test_a_trial_ends_at_once_when_its_image_is_withdrawn() -> None:
    client = await a_shop_that_gets("shop:2")
    await a_step(client)
    await client.modify(Canary, "shop", "default", lambda shop: shop.replace(spec=SPEC))
    await a_step(client)
    assert await sizes(client) == {"shop-stable shop:1": 10}


def the_stable_pods_stay(world: World) -> None:
    stable = world.find(Deployment, "shop-stable")
    assert stable is None or (stable.spec.replicas == 10 and not image_of(stable).endswith("bad"))


def test_a_canary_survives_every_fault() -> None:
    edits = [Edit(SHOP, {"spec": {"image": image}}) for image in ("shop:2", "shop:3-bad")]
    scenario = Scenario(
        controllers=lambda: [canaries, pods],
        steps=[Apply(SHOP), *edits],
        always=[the_stable_pods_stay],
        quiet_seconds=2 * STEP,
        limit_seconds=20 * STEP,
    )
    print(sweep(scenario, most=RUNS))
