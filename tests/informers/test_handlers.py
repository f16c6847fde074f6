"""Handlers: each hears everything in its own order, none is in the way of another."""

import anyio
import pytest

from informers import Delta, Informer
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.models import ObjectMeta
from reconcile.testing import VirtualClock
from tests.helpers.scenarios import in_world, simulated
from tests.informers.informed import CONFIG_MAPS, World, informed


async def make(client: Client, *names: str) -> None:
    for name in names:
        await client.create(ConfigMap(metadata=ObjectMeta(name, "default"), data={}))
    await anyio.sleep(0.1)


@pytest.mark.rule("inv-28")
@in_world(informed)
async def test_a_slow_handler_gets_everything_in_order_and_delays_no_other(world: World) -> None:
    slow: list[str] = []
    quick: list[str] = []

    async def take_time(delta: Delta) -> None:
        await anyio.sleep(10)
        slow.append(delta.last.key.name)

    world.informer.add_async_handler(take_time)
    world.informer.add_handler(lambda delta: quick.append(delta.last.key.name))
    await make(world.client, "a", "b", "c")
    assert quick == ["a", "b", "c"]
    assert slow == []
    assert world.informer.status().backlog == 3
    await anyio.sleep(31)
    assert slow == ["a", "b", "c"]
    assert world.informer.status().backlog == 0


@pytest.mark.rule("inv-15", "inv-28")
@in_world(informed)
async def test_handlers_that_raise_or_never_return_do_not_affect_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    heard_in_time: list[str] = []

    def raise_at_once(delta: Delta) -> None:
        raise RuntimeError("broken")

    async def raise_later(delta: Delta) -> None:
        await anyio.sleep(1)
        raise RuntimeError("broken")

    async def never_return(delta: Delta) -> None:
        await anyio.sleep_forever()

    async def listen(delta: Delta) -> None:
        heard_in_time.append(delta.last.key.name)

    world.informer.add_handler(raise_at_once)
    world.informer.add_async_handler(raise_later)
    stuck = world.informer.add_async_handler(never_return)
    world.informer.add_handler(lambda delta: heard.append(delta.last.key.name))
    world.informer.add_async_handler(listen)
    await make(world.client, *"abcd")
    assert heard == heard_in_time == list("abcd")
    assert "a handler failed" in caplog.text
    await anyio.sleep(10)
    assert world.informer.status().backlog == len(stuck.backlog) == 4


@pytest.mark.rule("inv-30")
@in_world(informed)
async def test_a_late_asynchronous_handler_is_synced_after_the_existing_objects(world: World) -> None:
    await make(world.client, "a", "b")
    heard: list[tuple[str, bool]] = []

    async def take_time(delta: Delta) -> None:
        await anyio.sleep(10)
        heard.append((delta.last.key.name, delta.initial))

    registration = world.informer.add_async_handler(take_time)
    await make(world.client, "c")
    assert not registration.synced
    await anyio.sleep(15)
    assert not registration.synced
    await anyio.sleep(6)
    assert registration.synced
    await anyio.sleep(10)
    assert sorted(heard) == [("a", True), ("b", True), ("c", False)]


@pytest.mark.rule("inv-35")
@in_world(informed)
async def test_the_removal_of_a_handler_can_be_awaited(world: World) -> None:
    ended: list[str] = []

    async def take_time(delta: Delta) -> None:
        await anyio.sleep(10)
        ended.append(delta.last.key.name)

    registration = world.informer.add_async_handler(take_time)
    await make(world.client, "a", "b")
    begun = anyio.current_time()
    await registration.wait_removed()
    assert ended == ["a"]
    assert 9 < anyio.current_time() - begun < 11
    await anyio.sleep(60)
    assert ended == ["a"]


@pytest.mark.rule("inv-35")
@in_world(informed)
async def test_a_handler_that_awaits_its_own_removal_gets_an_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def end_itself(delta: Delta) -> None:
        await registration.wait_removed()

    registration = world.informer.add_async_handler(end_itself)
    await make(world.client, "a")
    await anyio.sleep(1)
    assert not registration.removed
    assert "a handler cannot wait for its own end" in caplog.text


@pytest.mark.rule("inv-15")
@in_world(informed)
async def test_an_asynchronous_handler_that_raises_continues_with_the_next_change(world: World) -> None:
    heard: list[str] = []

    async def broken_once(delta: Delta) -> None:
        heard.append(delta.last.key.name)
        if len(heard) == 1:
            raise RuntimeError("broken")

    world.informer.add_async_handler(broken_once)
    await make(world.client, "a", "b")
    assert heard == ["a", "b"]


@pytest.mark.rule("inv-29", "inv-32")
@in_world(informed)
async def test_a_resync_replays_the_store_to_the_handlers_that_requested_it_and_is_marked(
    world: World,
) -> None:
    replayed: list[Delta] = []
    others: list[Delta] = []
    registration = world.informer.add_handler(replayed.append, resync=3600)
    world.informer.add_handler(others.append)
    await make(world.client, "a", "b")
    await anyio.sleep(2 * 3600 * 1.1)
    again = [delta for delta in replayed if delta.resync]
    assert len(again) == 4
    assert all(delta.old is delta.new for delta in again)
    assert len(others) == 2
    registration.remove()
    await anyio.sleep(2 * 3600 * 1.1)
    assert len(replayed) == 6


@pytest.mark.rule("inv-32")
@in_world(informed)
async def test_a_resync_skips_objects_that_the_handler_has_yet_to_process(world: World) -> None:
    heard: list[tuple[int, bool]] = []

    async def take_time(delta: Delta) -> None:
        await anyio.sleep(50)
        heard.append((delta.last.version, delta.resync))

    world.informer.add_async_handler(take_time, resync=20)
    await make(world.client, "a")
    await anyio.sleep(49)
    assert world.informer.status().backlog == 1
    await anyio.sleep(40)
    assert [resync for _, resync in heard] == [False]


@simulated
async def test_a_change_in_progress_when_the_informer_stopped_is_delivered_again() -> None:
    server = ApiServer(clock=VirtualClock())
    client = Client(InProcessTransport(server), clock=VirtualClock())
    informer = Informer(InProcessTransport(server), CONFIG_MAPS, clock=VirtualClock())
    handled: list[str] = []

    async def take_time(delta: Delta) -> None:
        await anyio.sleep(10)
        handled.append(delta.last.key.name)

    informer.add_async_handler(take_time)
    await make(client, "a")
    for seconds in (5, 15):
        with anyio.move_on_after(seconds):
            await informer.run()
    assert handled == ["a"]
    assert informer.status().state == "stopped"


@in_world(informed)
async def test_a_handler_that_removes_another_one_hides_no_change_from_the_rest(world: World) -> None:
    heard: list[str] = []

    async def note(delta: Delta) -> None:
        heard.append(delta.last.key.name)

    def remove_second(delta: Delta) -> None:
        second.remove()
        world.informer.status()

    world.informer.add_handler(remove_second)
    second = world.informer.add_handler(lambda delta: None)
    world.informer.add_handler(lambda delta: heard.append(f"at once: {delta.last.key.name}"))
    world.informer.add_async_handler(note)
    await make(world.client, "a")
    assert heard == ["at once: a", "a"]
    assert world.informer.status().error == ""
