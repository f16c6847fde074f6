"""A controller whose objects replicas share by buckets: each works on what it holds, and on nothing else."""

import anyio
import pytest

from informers.informer_share import Share
from reconcile import Background, Context, Controller, Deleted, ObjectMeta, Request, Result, Watch
from reconcile.client.certainty import Certainty
from reconcile.client.own_writes import Journal
from reconcile.controller.triggers import INITIAL_PRIORITY
from reconcile.errors import Unreachable
from reconcile.kinds import ConfigMap
from reconcile.ops.debug_actions import DebugActions
from reconcile.runs.run_request import Cause
from reconcile.testing import Delay, Drop, Fault, When
from tests.controller.replicas import FOUR, Replica, Seen, made, working
from tests.helpers.managers import Toy, ToySpec, World, keep_size, played
from tests.helpers.scenarios import in_world


@in_world(played)
async def test_only_objects_in_held_buckets_are_reconciled(world: World) -> None:
    seen = Seen()
    replica = Replica(world, Controller(Toy, seen.keep))
    mine, other = await made(world, 1, "mine"), await made(world, 2, "other")
    async with working(world, replica):
        await anyio.sleep(5)
        assert seen.runs == []
        replica.hold([1])
        await anyio.sleep(5)
        assert seen.runs == ["mine"]
        await world.client.modify(Toy, "mine", "default", lambda toy: toy.replace(spec=ToySpec(size=2)))
        await world.client.modify(Toy, "other", "default", lambda toy: toy.replace(spec=ToySpec(size=2)))
        await anyio.sleep(5)
        assert (seen.count(mine), seen.count(other)) == (2, 0)
        assert set(seen.epochs) == {1}


@in_world(played)
async def test_the_objects_of_a_gained_bucket_run_behind_changes_and_say_why(world: World) -> None:
    replica = Replica(world, Controller(Toy, Seen().keep))
    await made(world, 1)
    async with working(world, replica):
        replica.runner.pause()
        replica.hold([1])
        [(item, _)] = replica.runner.queue.queued(9)
        assert (item.priority, [str(cause) for cause in item.causes]) == (
            INITIAL_PRIORITY,
            ["added: gained bucket 1"],
        )


@in_world(played)
async def test_a_closed_bucket_begins_no_runs_even_of_queued_keys(world: World) -> None:
    seen = Seen()
    replica = Replica(world, Controller(Toy, seen.keep))
    await made(world, 1)
    async with working(world, replica):
        replica.runner.pause()
        replica.hold([1])
        replica.held.close([1])
        replica.runner.resume()
        await anyio.sleep(5)
        assert seen.runs == []
        assert replica.remembered == set()
        replica.hold([1])  # it stays here after all
        await anyio.sleep(5)
        assert seen.runs == ["a"]


@in_world(played)
async def test_a_run_that_waits_for_own_writes_while_its_bucket_closes_does_not_begin(world: World) -> None:
    seen = Seen()
    replica = Replica(world, Controller(Toy, seen.keep))
    toy = await made(world, 1)
    async with working(world, replica):
        slow_to_settle(world, replica, toy, Delay(3))
        replica.hold([1])
        await anyio.sleep(1)
        await replica.release([1])
        assert replica.remembered == set()
        await anyio.sleep(5)
        assert seen.runs == []
        assert replica.remembered == set()


@in_world(played)
async def test_a_release_reports_that_the_cache_may_not_show_its_writes(world: World) -> None:
    replica = Replica(world, Controller(Toy, Seen().keep))
    toy = await made(world, 1)
    async with working(world, replica):
        replica.runner.pause()
        replica.hold([1])
        slow_to_settle(world, replica, toy, Drop())
        replica.held.close([1])
        for _ in range(2):  # each time, as long as that is so
            with pytest.raises(Unreachable):
                await replica.runner.release([1])
        await replica.release([1], seconds=0)
        assert replica.remembered == set()


@in_world(played)
async def test_keys_that_are_not_held_are_not_even_queued(world: World) -> None:
    replica = Replica(world, Controller(Toy, Seen().keep))
    await made(world, 1)
    async with working(world, replica):
        replica.runner.enqueue(Request("default", "a"), Cause("triggered"))
        replica.runner.enqueue(Request("default", "none"), Cause("triggered"))
        assert replica.runner.queue.keys() == []


def slow_to_settle(world: World, replica: Replica, toy: Toy, what: Delay | Drop) -> None:
    """As after a write of unknown outcome: the key's next run first reads the object live."""
    journal = replica.executor.journals[Request(*toy.key)] = Journal()
    journal.doubt(replica.executor.resource, toy.key)
    world.transport.add(Fault(When("get", "*/toys/a", times=None), what))


@pytest.mark.parametrize("deleted", [False, True])
@in_world(played)
async def test_a_release_forgets_nothing_of_a_bucket_that_is_still_to_be_released(
    world: World, deleted: bool
) -> None:
    replica = Replica(world, Controller(Toy, keep_size))
    toy = await made(world, 2)
    async with working(world, replica):
        replica.hold([1, 2])
        await anyio.sleep(5)
        replica.held.close([1, 2])
        if deleted:
            await world.client.delete(toy)
            await anyio.sleep(5)
        await replica.release([1])
        assert replica.remembered == {Request(*toy.key)}  # its writes, which the cache has to show
        await replica.release([2])
        assert replica.remembered == set()


@in_world(played)
async def test_a_release_waits_for_runs_with_their_status_and_forgets_the_rest(world: World) -> None:
    started = anyio.Event()

    async def keep(ctx: Context[Toy]) -> Result:
        started.set()
        await anyio.sleep(10)
        ctx.status(size=ctx.object.spec.size)
        return Result(requeue_after=100)

    replica = Replica(world, Controller(Toy, keep, every=50))
    toy = await made(world, 1)
    async with working(world, replica):
        replica.hold([1])
        await started.wait()
        await replica.release([1])
        assert replica.remembered == set()
        assert (await world.client.get(Toy, toy.name, "default")).status.size == 1
        assert replica.cache.informer(replica.executor.resource).store.version >= int(
            (await world.client.get(Toy, toy.name, "default")).metadata.resource_version
        )


@in_world(played)
async def test_a_release_waits_for_no_run_of_another_bucket(world: World) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await anyio.sleep(100)

    replica = Replica(world, Controller(Toy, keep))
    await made(world, 1)
    async with working(world, replica):
        replica.hold([1, 2])
        await anyio.sleep(5)
        before = anyio.current_time()
        await replica.release([2])
        assert anyio.current_time() - before < 1
        assert len([*replica.runner.history.running()]) == 1


@in_world(played)
async def test_a_release_that_is_cancelled_cancels_the_runs(world: World) -> None:
    ends: list[str] = []

    async def keep(ctx: Context[Toy]) -> None:
        try:
            await anyio.sleep(200)
        finally:
            ends.append("cut")
            ctx.status(note="late")

    replica = Replica(world, Controller(Toy, keep))
    await made(world, 1)
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        await replica.release([1], seconds=3)
        await anyio.sleep(5)
        assert ends == ["cut"]
        assert replica.remembered == set()
        assert (await world.client.get(Toy, "a", "default")).status.note is None
        [past] = replica.runner.history.past(Request("default", "a"))
        assert past.error.startswith("BucketNotHeld")
        replica.hold([1], epoch=2)  # the worker lives on
        await anyio.sleep(5)
        assert len([*replica.runner.history.running()]) == 1


@in_world(played)
async def test_what_waits_for_back_off_is_forgotten_with_its_bucket(world: World) -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("not today")

    replica = Replica(world, Controller(Toy, fail))
    await made(world, 1)
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        assert replica.runner.queue.retries(Request("default", "a")) > 3
        await replica.release([1])
        assert replica.remembered == set()


@in_world(played)
async def test_a_key_that_is_not_held_is_neither_known_nor_triggered(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    replica = Replica(world, Controller(Toy, seen.keep))
    await made(world, 1)
    actions = DebugActions(lambda: [replica.runner])
    async with working(world, replica):
        key = Request("default", "a")
        assert not replica.runner.knows(key)
        replica.runner.trigger(key, Cause("triggered"), 0)
        with pytest.raises(LookupError, match="there is no toy default/a"):
            actions.act("trigger", "toy", "default/a")
        replica.hold([1])
        await anyio.sleep(5)
        assert replica.runner.knows(key)
        await replica.release([1])
        with pytest.raises(LookupError, match="there is no toy default/a"):
            actions.act("trigger", "toy", "default/a")
        await anyio.sleep(5)
        assert seen.runs == ["a"]
    assert "not triggered: this replica does not hold an object of that key" in caplog.text


@in_world(played)
async def test_deletions_are_reported_by_the_holder_alone(world: World) -> None:
    ends: list[str] = []

    async def gone(gone: Deleted[Toy]) -> None:
        ends.append(gone.object.uid)

    async def keep(ctx: Context[Toy]) -> None: ...

    replica = Replica(world, Controller(Toy, keep, on_deleted=gone))
    mine, other = await made(world, 1, "mine"), await made(world, 2, "other")
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        await world.client.delete(mine)
        await world.client.delete(other)
        await made(world, 2, "mine")  # a namesake, in another bucket
        await anyio.sleep(5)
        assert ends == [mine.uid]
        assert replica.remembered == set()


@in_world(played)
async def test_a_deleted_object_leaves_nothing_behind(world: World) -> None:
    replica = Replica(world, Controller(Toy, keep_size, wakes=lambda old, new: new is not None))
    toy = await made(world, 1)
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        await world.client.delete(toy)
        await anyio.sleep(5)
        assert replica.remembered == set()


@in_world(played)
async def test_background_tasks_work_for_held_objects_alone(world: World) -> None:
    listening: list[str] = []

    async def listen(background: Background[Toy]) -> None:
        listening.append(background.request.name)
        try:
            await anyio.sleep_forever()
        finally:
            listening.remove(background.request.name)

    replica = Replica(world, Controller(Toy, Seen().keep, background=listen))
    await made(world, 1, "one")
    await made(world, 2, "two")
    async with working(world, replica):
        await anyio.sleep(1)
        assert listening == []
        replica.hold([1, 2])
        await anyio.sleep(1)
        assert sorted(listening) == ["one", "two"]
        await replica.release([1])
        assert listening == ["two"]
        replica.hold([1], epoch=2)
        await anyio.sleep(1)
        assert sorted(listening) == ["one", "two"]
        replica.held.drop([1])  # without a release, as others have taken it
        informer = replica.cache.informer(replica.executor.resource)
        await informer.set_share(Share(keeps=lambda toy: FOUR.of(toy.uid) == 2), None)
        await anyio.sleep(1)
        assert listening == ["two"]


@in_world(played)
async def test_children_watches_and_resyncs_wake_held_objects_alone(world: World) -> None:
    seen = Seen()
    watch = Watch(ConfigMap, to=lambda _: [Request("default", name) for name in ("mine", "other", "none")])
    replica = Replica(world, Controller(Toy, seen.keep, watches=[watch], resync=10))
    await made(world, 1, "mine")
    await made(world, 2, "other")
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        await world.client.create(ConfigMap(metadata=ObjectMeta("c", "default")))
        await anyio.sleep(30)
        assert len(seen.runs) >= 4
        assert set(seen.runs) == {"mine"}


@in_world(played)
async def test_an_index_of_references_knows_objects_from_before_they_were_held(world: World) -> None:
    seen = Seen()
    watch = Watch(ConfigMap, by=lambda toy: toy.spec.secret)
    replica = Replica(world, Controller(Toy, seen.keep, watches=[watch]))
    await made(world, 1, secret="c")
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        await world.client.create(ConfigMap(metadata=ObjectMeta("c", "default")))
        await anyio.sleep(5)
        assert seen.runs == ["a", "a"]


@pytest.mark.parametrize("clean", [True, False])
@in_world(played)
async def test_after_an_unclean_gain_the_cache_has_to_prove_itself_again(world: World, clean: bool) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        if not await ctx.owned(ConfigMap):
            await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="c-")))

    replica = Replica(world, Controller(Toy, keep, owns=[ConfigMap]))
    await made(world, 1, "first")
    await made(world, 2, "second")
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        replica.held.hold(2, 1)
        replica.runner.gain([2], clean=clean)
        await anyio.sleep(5)
        repeated = [run.result for run in replica.runner.history.past(Request("default", "second"))]
        assert repeated[0] == ("success" if clean else "requeue")
        assert len(await world.client.list(ConfigMap)) == 2


@in_world(played)
async def test_no_run_begins_once_the_lease_of_the_member_has_run_out(world: World) -> None:
    """As in a process that stood still: others may have its buckets, and its end is only a few steps away."""
    seen = Seen()
    replica = Replica(world, Controller(Toy, seen.keep))
    replica.held.certainty = Certainty(world.clock)
    await made(world, 1)
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        assert seen.runs == []
        replica.held.certainty.extend(anyio.current_time() + 1000)
        await anyio.sleep(30)
        assert seen.runs == ["a"]
