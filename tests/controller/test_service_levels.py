"""How soon controllers react, how soon objects converge, and what runs at rest do, in virtual time."""

import json
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry

from informers import Snapshot
from reconcile import Context, Controller, LeaderElection, Result, kind_of
from reconcile.controller.service_levels import is_met
from tests.helpers.managers import Toy, World, keep_size, played
from tests.helpers.scenarios import in_world

TOYS = kind_of(Toy).resource


class Scrape:
    """The metrics of the controller `toy`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def __getitem__(self, name: str) -> float:
        return self.of(name)

    def of(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(f"reconcile_{name}", {"controller": "toy", **labels})
        assert value is not None, name
        return value


async def resize(world: World, size: int, name: str = "a") -> None:
    toy = await world.client.get(Toy, name, "default")
    await world.client.raw.patch(TOYS, toy.key, {"spec": {"size": size}}, guard={})


async def ready_at_once(ctx: Context[Toy]) -> None:
    ctx.status(size=ctx.object.spec.size)
    ctx.condition("Ready", True, reason="Sized", message="")


# --- reaction ---------------------------------------------------------------------------------------


@in_world(played)
async def test_the_time_from_a_change_to_its_run_is_the_reaction(world: World) -> None:
    scrape = Scrape()

    async def slow(ctx: Context[Toy]) -> None:
        await anyio.sleep(20)

    async with world.running(Controller(Toy, slow, workers=1), metrics=scrape.registry):
        await anyio.sleep(5)
        await world.make("a")
        await anyio.sleep(1)
        await world.make("b")
        await anyio.sleep(60)
        assert scrape["reaction_seconds_count"] == 2
        assert scrape.of("reaction_seconds_bucket", le="0.5") == 1
        assert scrape["reaction_seconds_sum"] == pytest.approx(19, abs=0.5)


@in_world(played)
async def test_the_first_list_echoes_retries_and_timers_are_no_changes_to_react_to(world: World) -> None:
    scrape, runs = Scrape(), 0
    await world.make("a")

    async def restless(ctx: Context[Toy]) -> Result:
        nonlocal runs
        runs += 1
        ctx.status(size=runs)  # its echo wakes nothing that counts
        if runs == 2:
            raise ValueError("once")
        return Result(requeue_after=5)

    controller = Controller(Toy, restless, every=7, resync=11)
    async with world.running(controller, metrics=scrape.registry):
        await anyio.sleep(60)
        assert runs > 5
        assert scrape["reaction_seconds_count"] == 0


@in_world(played)
async def test_the_time_for_which_a_controller_or_a_key_was_paused_is_no_reaction(world: World) -> None:
    scrape = Scrape()
    async with world.running(Controller(Toy, keep_size), metrics=scrape.registry) as manager:
        runner = manager._runners[0]
        toy = await world.make("a")
        await anyio.sleep(5)
        runner.pause()
        await resize(world, 2)
        await anyio.sleep(100)
        assert scrape["paused"] == 1
        runner.resume()
        await anyio.sleep(5)
        assert (scrape["paused"], scrape["paused_keys"]) == (0, 0)
        request = next(request for request, _ in runner.history.recent() if request.key == toy.key)
        runner.rest(request)
        await resize(world, 3)
        await anyio.sleep(100)
        assert scrape["paused_keys"] == 1
        runner.wake(request)
        await anyio.sleep(5)
        assert (await world.client.get(Toy, "a", "default")).status.size == 3
        assert scrape["reaction_seconds_sum"] < 1


@in_world(played)
async def test_a_standby_owes_nothing_when_it_takes_over(world: World) -> None:
    scrape = Scrape()
    controller = Controller(Toy, ready_at_once)
    election = LeaderElection("toys")
    async with world.running(controller, leader_election=election) as first:
        await anyio.sleep(5)
        async with world.running(controller, leader_election=election, metrics=scrape.registry):
            await world.make("a")
            await anyio.sleep(60)
            await resize(world, 2)
            await anyio.sleep(60)
            first.stop()
            await anyio.sleep(60)
            assert scrape["reaction_seconds_count"] == 0
            assert scrape["convergence_seconds_count"] == 0
            assert scrape["unconverged_objects"] == 0
            await resize(world, 3)
            await anyio.sleep(5)
            assert (scrape["reaction_seconds_count"], scrape["convergence_seconds_count"]) == (1, 1)


# --- convergence ------------------------------------------------------------------------------------


@in_world(played)
async def test_an_object_converges_when_its_generation_is_observed_and_ready(world: World) -> None:
    scrape, ready = Scrape(), False

    async def when_ready(ctx: Context[Toy]) -> Result:
        ctx.condition("Ready", ready, reason="Toys", message="")
        return Result(requeue_after=10)

    async with world.running(Controller(Toy, when_ready), metrics=scrape.registry):
        await anyio.sleep(5)
        await world.make("a")
        await anyio.sleep(100)
        assert scrape["convergence_seconds_count"] == 0
        assert scrape["unconverged_objects"] == 1
        assert scrape["unconverged_oldest_seconds"] == pytest.approx(100, abs=1)
        await resize(world, 2)  # the user still waits: the clock goes on
        await anyio.sleep(50)
        ready = True
        await anyio.sleep(12)
        assert scrape["convergence_seconds_count"] == 1
        assert scrape["convergence_seconds_sum"] == pytest.approx(155, abs=6)
        assert (scrape["unconverged_objects"], scrape["unconverged_oldest_seconds"]) == (0, 0)


@in_world(played)
async def test_a_kind_that_does_not_say_whether_it_is_ready_converges_by_a_run_that_asks_for_nothing(
    world: World,
) -> None:
    scrape, left = Scrape(), 3

    async def in_steps(ctx: Context[Toy]) -> Result | None:
        nonlocal left
        left -= 1
        if left == 1:
            raise ValueError("not yet")
        return Result(requeue_after=10) if left > 0 else None

    async with world.running(Controller(Toy, in_steps), metrics=scrape.registry):
        await anyio.sleep(5)
        await world.make("a")
        await anyio.sleep(5)
        assert scrape["unconverged_objects"] == 1
        await anyio.sleep(30)
        assert scrape["unconverged_objects"] == 0
        assert scrape["convergence_seconds_sum"] == pytest.approx(10, abs=1)


@in_world(played)
async def test_an_object_that_is_deleted_drops_out(world: World) -> None:
    scrape = Scrape()

    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("no")

    async with world.running(Controller(Toy, fail), metrics=scrape.registry):
        toy = await world.make("a")
        await anyio.sleep(100)
        assert (scrape["unconverged_objects"], scrape["failing_keys"]) == (1, 1)
        assert scrape["failing_oldest_seconds"] == pytest.approx(100, abs=1)
        await world.client.delete(toy)
        await anyio.sleep(5)
        assert (scrape["unconverged_objects"], scrape["failing_keys"]) == (0, 0)
        assert scrape["convergence_seconds_count"] == 0


@in_world(played)
async def test_a_restart_measures_only_objects_that_were_not_converged(world: World) -> None:
    for name in ("a", "b"):
        await world.make(name)
    controller = Controller(Toy, ready_at_once)
    async with world.running(controller):
        await anyio.sleep(5)
    scrape = Scrape()
    await world.make("c")

    async def not_c(ctx: Context[Toy]) -> None:
        if ctx.object.name == "c":
            raise ValueError("not c")
        await ready_at_once(ctx)

    async with world.running(Controller(Toy, not_c), metrics=scrape.registry):
        await anyio.sleep(50)
        assert scrape["convergence_seconds_count"] == 0
        assert scrape["unconverged_objects"] == 1
        assert scrape["unconverged_oldest_seconds"] == pytest.approx(50, abs=1)


# --- rest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quiet", [True, False])
def test_runs_at_rest_are_counted_by_whether_they_wrote(quiet: bool) -> None:
    async def scenario(world: World) -> None:
        scrape, runs = Scrape(), 0

        async def write(ctx: Context[Toy]) -> None:
            nonlocal runs
            runs += 1
            ctx.status(size=1 if quiet else runs)

        async with world.running(Controller(Toy, write, resync=60), metrics=scrape.registry):
            await world.make("a")
            await anyio.sleep(400)
            counts = [scrape.of("idle_runs_total", wrote=wrote) for wrote in ("true", "false")]
        assert [count > 0 for count in counts] == [not quiet, quiet]
        assert sum(counts) >= 5

    played(scenario)


# --- what an object says ----------------------------------------------------------------------------


def snapshot(status: Any) -> Snapshot:
    body = {"metadata": {"name": "a", "namespace": "n", "generation": 3}, "status": status}
    return Snapshot.from_json(json.dumps(body).encode())


def ready(status: str, observed: int | None = None, name: str = "Ready") -> dict[str, Any]:
    return {"type": name, "status": status} | ({} if observed is None else {"observedGeneration": observed})


@pytest.mark.parametrize(
    ("status", "after_run", "before_run"),
    [
        ({}, True, False),
        (None, True, False),
        ({"observedGeneration": 3}, True, False),
        ({"observedGeneration": 2}, False, False),
        ({"conditions": [ready("True")]}, True, False),
        ({"conditions": [ready("False")]}, False, False),
        ({"conditions": [ready("True", 3)]}, True, True),
        ({"conditions": [ready("True", 2)]}, False, False),
        ({"observedGeneration": 3, "conditions": [ready("True")]}, True, True),
        ({"observedGeneration": 2, "conditions": [ready("True")]}, False, False),
        ({"observedGeneration": 3, "conditions": [ready("True", 2)]}, False, False),
        ({"observedGeneration": 3, "conditions": [ready("Unknown")]}, False, False),
        ({"observedGeneration": 3, "conditions": [ready("True", name="Available")]}, True, True),
        ({"conditions": [ready("False", 3), ready("True", 3, "Available")]}, False, False),
        ({"conditions": None, "observedGeneration": None}, True, False),
        ({"conditions": "none"}, True, False),
        ({"observedGeneration": "3"}, True, False),
        ([], True, False),
    ],
)
def test_a_generation_is_met_as_the_object_says_or_else_as_its_runs_are(
    status: Any, after_run: bool, before_run: bool
) -> None:
    assert is_met(snapshot(status), 3, True) is after_run
    assert is_met(snapshot(status), 3, False) is before_run
