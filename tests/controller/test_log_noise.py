"""How much replicas log whose objects are at rest; `test_run_log` has a thousand objects and an hour."""

import logging
from collections import Counter
from collections.abc import Callable

import anyio
import pytest
from attrs import define, field

from reconcile import Context, Controller, Intent, LeaderElection, Manager, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.sharding import Sharding
from reconcile.testing import simulate
from tests.helpers.managers import Toy, World

OBJECTS = 500
MINUTES = 30


@define
class Rest:
    """Controllers of replicas, whose runs are counted by replica."""

    world: World
    runs: Counter[str] = field(factory=Counter)

    def controller(self, identity: str) -> Controller[Toy]:
        async def keep(ctx: Context[Toy]) -> None:
            self.runs[identity] += 1
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"size": "1"}))
            ctx.condition("Ready", True, reason="Kept")

        return Controller(Toy, keep, name="toys", owns=[ConfigMap], every=600, resync=900)


def leading(rest: Rest, identity: str) -> Manager:
    election = LeaderElection("toys", identity=identity)
    return rest.world.manager(rest.controller(identity), leader_election=election, stop_seconds=5)


def sharing(rest: Rest, identity: str) -> Manager:
    ring = Sharding("ring", buckets=16, identity=identity)
    return rest.world.manager(rest.controller(identity), sharding=ring, stop_seconds=5)


@pytest.mark.rule("log-quiet")
@pytest.mark.parametrize(("manager_of", "at_work"), [(leading, {"a"}), (sharing, {"a", "b"})])
def test_replicas_with_objects_at_rest_log_at_most_a_line_a_minute(
    manager_of: Callable[[Rest, str], Manager], at_work: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    rest = Rest(world)

    async def scenario() -> None:
        await world.define()
        for number in range(OBJECTS):
            await world.make(f"a{number}")
        async with anyio.create_task_group() as group:
            group.start_soon(world.server.run)
            await group.start(manager_of(rest, "a").run)
            await anyio.sleep(5)
            await group.start(manager_of(rest, "b").run)
            await anyio.sleep(60)
            assert sum("wrote" in vars(record) for record in caplog.records) >= OBJECTS
            caplog.clear()
            rest.runs.clear()
            await anyio.sleep(MINUTES * 60)
            group.cancel_scope.cancel()

    with caplog.at_level(logging.INFO):
        simulate(scenario, limit_seconds=2 * MINUTES * 60)
        lines = Counter(record.getMessage() for record in caplog.records)
    # They did run, all of them: it is not for a lack of runs that there is no line.
    assert {identity for identity, runs in rest.runs.items() if runs} == at_work
    assert rest.runs.total() >= 2 * OBJECTS
    assert lines.total() <= MINUTES, lines
