"""What follows an outage of the API server: keys and informers go on at once, and paced."""

import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from io import StringIO
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from rich.console import Console

from informers import HttpRequest, OutcomeUnknown, Response
from reconcile import Context, Controller, LeaderElection, Manager, ObjectMeta, Result
from reconcile.commands.top_command import _screen, summary
from reconcile.kinds import ConfigMap
from reconcile.manager.option_list import CLIENT_BURST, CLIENT_QPS
from tests.controller.outage import (
    Weather,
    World,
    bad_gateway,
    build,
    child,
    fair,
    played,
    refused,
    reset,
    silent,
    unavailable,
)
from tests.helpers.managers import Toy, idle, keep_size
from tests.helpers.scenarios import in_world

NOTICED = 1.0
"""Seconds within which the end of an outage is noticed."""
AT_REST = 2.0
"""Seconds after an outage within which all is done that takes no time itself."""
FIRST_SECOND = 100
"""Requests that may be sent in the first second after an outage."""


async def outage(world: World, weather: Weather, seconds: float, *, cut: bool = True) -> None:
    """Bad weather for so long; all toys are resized as it begins, which can be seen when it ends."""
    world.line.break_down(weather, cut=cut)
    await world.resize(2)
    await anyio.sleep(seconds)
    world.line.weather = fair


def restless(reconcile: Callable[[Context[Toy]], Awaitable[Any]] = keep_size) -> Controller[Toy]:
    """A controller whose keys run all the time, so that an outage meets them at work."""

    async def again(ctx: Context[Toy]) -> Result:
        await ctx.apply(child(ctx, str(ctx.clock.random())))
        await reconcile(ctx)
        return Result(requeue_after=0.5)

    return Controller(Toy, again, name="toys", workers=5, owns=[ConfigMap])


@pytest.mark.rule("outage-3")
@pytest.mark.parametrize("weather", [refused, reset, bad_gateway, unavailable])
@pytest.mark.parametrize("seconds", [1, 10, 60, 600])
@in_world(partial(played, toys=5))
async def test_keys_and_informers_resume_at_once_when_the_server_answers_again(
    world: World, seconds: float, weather: Weather
) -> None:
    async with world.running(restless()):
        await anyio.sleep(5)
        await outage(world, weather, seconds)
        assert await world.seconds_until(lambda: is_done(world, 2)) <= AT_REST


async def is_done(world: World, size: int) -> bool:
    return await world.sizes() == {size}


@pytest.mark.rule("outage-3")
@pytest.mark.parametrize("seconds", [15, 60])
@in_world(partial(played, toys=5))
async def test_an_outage_without_answers_also_ends_for_hanging_requests(world: World, seconds: float) -> None:
    async with world.running(Controller(Toy, keep_size)):
        await anyio.sleep(5)
        await outage(world, silent, seconds)
        taken = await world.seconds_until(lambda: is_done(world, 2))
        assert taken <= 3.0 + AT_REST  # a probe may hang for its three seconds


@pytest.mark.rule("outage-3")
@in_world(partial(played, toys=3))
async def test_a_watch_that_fell_silent_in_an_outage_is_reopened(world: World) -> None:
    async with world.running(restless(), Controller(ConfigMap, idle, name="others")):
        await anyio.sleep(5)
        before = len([sent for sent in world.line.sent if sent[2].endswith("/configmaps")])
        await outage(world, refused, 10, cut=False)
        await anyio.sleep(AT_REST)
        assert len([sent for sent in world.line.sent if sent[2].endswith("/configmaps")]) == before + 1


@pytest.mark.rule("outage-4")
@pytest.mark.parametrize("qps", [50.0, 0.0])
@pytest.mark.parametrize("seconds", [1, 20])
@in_world(partial(played, toys=150))
async def test_at_most_a_hundred_requests_are_sent_in_the_first_second_after_an_outage(
    world: World, seconds: float, qps: float
) -> None:
    async with world.running(Controller(Toy, build, workers=50, owns=[ConfigMap]), client_qps=qps):
        await world.seconds_until(lambda: is_done(world, 1))
        await anyio.sleep(5)
        await outage(world, refused, seconds)
        ended = anyio.current_time()
        taken = await world.seconds_until(lambda: is_done(world, 2))
        first = world.line.sent_between(ended, ended + 20)[0][0]
        assert first - ended <= NOTICED
        for begin in (ended, first):
            assert len(world.line.sent_between(begin, begin + 1)) <= FIRST_SECOND
        work = 0 if not qps else 2 * 150 / qps
        assert taken <= AT_REST + work


@pytest.mark.rule("outage-4")
@in_world(played)
async def test_an_outage_is_probed_once_a_second_and_nothing_else_is_sent(world: World) -> None:
    controllers = [
        Controller(kind, function, name=name, workers=10, owns=[ConfigMap])
        for kind, function, name in [(Toy, build, "one"), (Toy, keep_size, "two")]
    ]
    async with world.running(*controllers, Controller(ConfigMap, idle, name="three")):
        await anyio.sleep(5)
        began = anyio.current_time()
        await outage(world, refused, 60)
        assert len(world.line.sent_between(began + 3, began + 60)) <= 57 / 0.8 + 1


@pytest.mark.rule("outage-3")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1000),
    outages=st.lists(
        st.tuples(
            st.floats(0, 3),
            st.sampled_from([refused, reset, bad_gateway, unavailable]),
            st.floats(0, 20),
            st.booleans(),
        ),
        max_size=4,
    ),
)
@example(seed=915, outages=[(2.706653408898089, refused, 0.0, True)] * 3)
@in_world(partial(played, toys=5))
async def test_the_work_is_done_soon_after_the_last_of_any_series_of_outages(
    world: World, seed: int, outages: list[tuple[float, Weather, float, bool]]
) -> None:

    async with world.running(Controller(Toy, build, owns=[ConfigMap])):
        for pause, weather, seconds, cut in outages:
            await anyio.sleep(pause)
            await outage(world, weather, seconds, cut=cut)
        await world.resize(3)
        # A blip that no probe saw leaves retries of their own: 0.8 to 1.6 s of an informer, and twice as long
        # after each further one within two minutes.
        own = 1.6 * 2 ** max(0, len(outages) - 1)
        assert await world.seconds_until(lambda: is_done(world, 3)) <= AT_REST + own
        children = await world.client.list(ConfigMap, "default")
        assert {child.data["size"] for child in children} == {"3"}


@pytest.mark.rule("outage-5")
@in_world(played)
async def test_an_outage_is_logged_in_two_lines_and_shown_in_the_status(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    registry = CollectorRegistry()

    def measured(name: str) -> float | None:
        return registry.get_sample_value(f"reconcile_api_server_{name}", {"cluster": ""})

    controllers = Controller(Toy, keep_size), Controller(ConfigMap, idle)
    async with world.running(*controllers, metrics=registry) as manager:
        await anyio.sleep(5)
        assert (measured("reachable"), measured("outages_total")) == (1, 0)
        assert "unreachable" not in screen_of(manager)
        world.line.break_down(refused)
        await anyio.sleep(30)
        (cluster,) = manager.status().clusters
        assert not cluster.reachable
        assert cluster.down_seconds == pytest.approx(30, abs=1)
        assert "nothing listens there" in cluster.error
        (shown,) = manager.state()["clusters"]
        assert (shown["reachable"], shown["outages"]) == (False, 1)
        assert (measured("reachable"), measured("outages_total")) == (0, 1)
        assert "the API server has been unreachable for 30 s: " in screen_of(manager)
        world.line.weather = fair
        await anyio.sleep(5)
        (cluster,) = manager.status().clusters
        assert (cluster.reachable, cluster.error, cluster.outages) == (True, "", 1)
    told = [record.getMessage() for record in caplog.records if "API server" in record.getMessage()]
    assert [line for line in told if "cannot be reached" in line or "answers again" in line] == told
    assert len(told) == 2


def screen_of(manager: Manager) -> str:
    """What `reconcile top` shows of a manager."""
    console = Console(width=200, record=True, file=StringIO())
    console.print(_screen(summary(manager.state())))
    return console.export_text()


@in_world(played)
async def test_top_shows_errors_as_they_are_and_no_markup_or_escapes(world: World) -> None:
    async def fail(ctx: Context[Any]) -> None:
        raise ValueError("cannot patch [/metadata/labels] [a-z]+ \x1b[2J")

    async with world.running(Controller(Toy, fail)) as manager:
        await world.make()
        await anyio.sleep(5)
        assert "cannot patch [/metadata/labels] [a-z]+ \\x1b[2J" in screen_of(manager)


@pytest.mark.rule("outage-5")
@in_world(played)
async def test_one_failed_request_to_a_server_that_is_up_is_not_an_outage(world: World) -> None:
    async with world.running(restless()) as manager:
        await anyio.sleep(5)
        for weather in (refused, reset, bad_gateway):
            left = [1]

            def once(method: str, path: str, left: list[int] = left, bad: Weather = weather) -> Any:
                return bad(method, path) if left and left.pop() else None

            world.line.weather = once
            await anyio.sleep(5)
        (cluster,) = manager.status().clusters
        assert (cluster.reachable, cluster.outages) == (True, 0)


@pytest.mark.rule("outage-5")
@in_world(played)
async def test_one_resource_that_a_gateway_refuses_stops_nothing_else(world: World) -> None:
    def one_group_down(method: str, path: str) -> Response | None:
        return unavailable(method, path) if "toys" in path else None

    seen: Counter[str] = Counter()

    async def count(ctx: Context[ConfigMap]) -> Result:
        seen[ctx.object.name] += 1
        return Result(requeue_after=1)

    await world.client.create(ConfigMap(metadata=ObjectMeta("settings", "default")))
    async with world.running(Controller(Toy, keep_size), Controller(ConfigMap, count)) as manager:
        await anyio.sleep(5)
        seen.clear()
        began = anyio.current_time()
        world.line.break_down(one_group_down)
        await anyio.sleep(60)
        assert seen["settings"] >= 58
        assert manager.status().clusters[0].outages == 0
        probes = [sent for sent in world.line.sent_between(began, began + 60) if sent[2] == "/readyz"]
        assert len(probes) <= 60


@pytest.mark.rule("outage-4")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_server_that_answers_every_other_request_is_neither_flooded_nor_abandoned(
    world: World, seed: int
) -> None:
    chance = random.Random(seed)

    def half(method: str, path: str) -> Exception | None:
        return reset(method, path) if chance.random() < 0.5 else None

    async with world.running(Controller(Toy, build, owns=[ConfigMap])):
        await anyio.sleep(5)
        began = anyio.current_time()
        world.line.break_down(half)
        await world.resize(2)
        await world.seconds_until(lambda: is_done(world, 2))  # keys wait in back-offs of their own
        counts = Counter(int(at - began) for at, _, _ in world.line.sent_between(began, began + 60))
        assert max(counts.values()) <= CLIENT_QPS + CLIENT_BURST
        assert counts.total() / 60 <= 10


@pytest.mark.rule("outage-4")
@in_world(played)
async def test_a_server_that_fails_every_other_second_gets_few_requests_and_the_work_is_done(
    world: World,
) -> None:
    async with world.running(Controller(Toy, build, owns=[ConfigMap], workers=20)):
        await anyio.sleep(5)
        began = anyio.current_time()
        for _ in range(30):
            await outage(world, refused, 1)
            await anyio.sleep(1)
        await world.seconds_until(lambda: is_done(world, 2), 10)
        counts = Counter(int(at - began) for at, _, _ in world.line.sent_between(began, began + 60))
        assert max(counts.values()) <= FIRST_SECOND


@pytest.mark.rule("outage-3")
@in_world(partial(played, toys=1))
async def test_a_write_whose_answer_was_lost_in_an_outage_is_looked_up_and_not_repeated(world: World) -> None:
    made: list[str] = []

    async def make(ctx: Context[Toy]) -> None:
        if not await ctx.owned(ConfigMap):
            made.append(ctx.object.name)
            await ctx.create(ConfigMap(metadata=ObjectMeta(ctx.object.name)))

    inner = world.line.request

    async def lost(request: HttpRequest) -> Response:
        answer = await inner(request)
        if request.method == "POST" and world.line.weather is fair:
            world.line.break_down(refused)
            raise OutcomeUnknown("the connection was reset", request.path)
        return answer

    world.line.request = lost  # type: ignore[method-assign]
    async with world.running(Controller(Toy, make, owns=[ConfigMap])):
        await anyio.sleep(20)
        world.line.request = inner  # type: ignore[method-assign]
        world.line.weather = fair
        await anyio.sleep(AT_REST)
        assert len(made) == 1
        assert len(await world.client.list(ConfigMap, "default")) == 1


@pytest.mark.rule("outage-3")
@in_world(played)
async def test_a_manager_stops_at_once_in_an_outage(world: World) -> None:
    async with world.running(Controller(Toy, build, owns=[ConfigMap]), stop_seconds=30):
        await anyio.sleep(5)
        world.line.break_down(refused)
        await world.resize(2)
        await anyio.sleep(20)
        began = anyio.current_time()
    assert anyio.current_time() - began < 1


@pytest.mark.rule("outage-3")
@in_world(played)
async def test_a_paused_controller_stays_paused_after_an_outage(world: World) -> None:
    async with world.running(Controller(Toy, keep_size, name="toys")) as manager:
        await anyio.sleep(5)
        manager.pause("toys")
        await outage(world, refused, 10)
        await anyio.sleep(5)
        assert await world.sizes() == {1}
        manager.resume("toys")
        await anyio.sleep(1)
        assert await world.sizes() == {2}


@pytest.mark.rule("outage-3")
@in_world(partial(played, toys=200))
async def test_a_leader_survives_an_outage_shorter_than_its_lease_and_resumes_at_once(world: World) -> None:
    election = LeaderElection("toys", identity="only")
    async with world.running(
        Controller(Toy, build, workers=50, owns=[ConfigMap]), leader_election=election
    ) as manager:
        await anyio.sleep(10)
        await outage(world, refused, 6)
        assert await world.seconds_until(lambda: is_done(world, 2)) <= AT_REST + 2 * 200 / 50
        assert manager.status().leading


@pytest.mark.rule("outage-3")
@in_world(played)
async def test_startup_waits_for_an_outage_to_end(world: World) -> None:
    world.line.break_down(refused)

    async def clear_up() -> None:
        await anyio.sleep(30)
        world.line.weather = fair

    async with anyio.create_task_group() as group:
        group.start_soon(clear_up)
        async with world.running(Controller(Toy, build, owns=[ConfigMap])):
            assert anyio.current_time() <= 30 + AT_REST
            await world.seconds_until(lambda: is_done(world, 1), 2)
