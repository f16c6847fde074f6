"""Handlers: each hears everything in its own order, none is in the way of another."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from informers import APIResource, Delta, Informer, InformerOptions
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.models import ObjectMeta
from reconcile.testing import VirtualClock, simulate

CONFIG_MAPS = APIResource("", "v1", "ConfigMap", "configmaps")
Scenario = Callable[[Client, Informer], Awaitable[None]]


def informed(scenario: Scenario, options: InformerOptions | None = None) -> None:
    """Play a scenario with a client and a running informer of a server that is never late."""

    async def run() -> None:
        server = ApiServer(clock=VirtualClock())
        client = Client(InProcessTransport(server), clock=VirtualClock())
        informer = Informer(InProcessTransport(server), CONFIG_MAPS, options=options, clock=VirtualClock())
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            await informer.wait_synced()
            await scenario(client, informer)
            group.cancel_scope.cancel()

    simulate(run, limit_seconds=100_000)


async def make(client: Client, *names: str) -> None:
    for name in names:
        await client.create(ConfigMap(metadata=ObjectMeta(name, "default"), data={}))
    await anyio.sleep(0.1)


@pytest.mark.rule("inv-28")
def test_a_handler_that_takes_its_time_hears_everything_in_order_and_holds_up_nobody() -> None:
    async def scenario(client: Client, informer: Informer) -> None:
        slow: list[str] = []
        quick: list[str] = []

        async def take_time(delta: Delta) -> None:
            await anyio.sleep(10)
            slow.append(delta.last.key.name)

        informer.add_async_handler(take_time)
        informer.add_handler(lambda delta: quick.append(delta.last.key.name))
        await make(client, "a", "b", "c")
        assert quick == ["a", "b", "c"]
        assert slow == []
        assert informer.status().backlog == 3
        await anyio.sleep(31)
        assert slow == ["a", "b", "c"]
        assert informer.status().backlog == 0

    informed(scenario)


@pytest.mark.rule("inv-15")
@pytest.mark.rule("inv-28")
def test_handlers_that_raise_or_never_return_are_in_nobodys_way() -> None:
    async def scenario(client: Client, informer: Informer) -> None:
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

        informer.add_handler(raise_at_once)
        informer.add_async_handler(raise_later)
        stuck = informer.add_async_handler(never_return)
        informer.add_handler(lambda delta: heard.append(delta.last.key.name))
        informer.add_async_handler(listen)
        await make(client, *"abcd")
        assert heard == heard_in_time == list("abcd")
        await anyio.sleep(10)
        assert informer.status().backlog == len(stuck.backlog) == 4

    informed(scenario)


@pytest.mark.rule("inv-30")
def test_a_late_asynchronous_handler_is_synced_when_it_is_done_with_what_there_was() -> None:
    async def scenario(client: Client, informer: Informer) -> None:
        await make(client, "a", "b")
        heard: list[tuple[str, bool]] = []

        async def take_time(delta: Delta) -> None:
            await anyio.sleep(10)
            heard.append((delta.last.key.name, delta.initial))

        registration = informer.add_async_handler(take_time)
        await make(client, "c")
        assert not registration.synced
        await anyio.sleep(15)
        assert not registration.synced
        await anyio.sleep(6)
        assert registration.synced
        await anyio.sleep(10)
        assert sorted(heard) == [("a", True), ("b", True), ("c", False)]

    informed(scenario)


@pytest.mark.rule("inv-35")
def test_the_end_of_a_handler_can_be_waited_for() -> None:
    async def scenario(client: Client, informer: Informer) -> None:
        ended: list[str] = []

        async def take_time(delta: Delta) -> None:
            await anyio.sleep(10)
            ended.append(delta.last.key.name)

        registration = informer.add_async_handler(take_time)
        await make(client, "a", "b")
        begun = anyio.current_time()
        await registration.wait_removed()
        assert ended == ["a"]
        assert 9 < anyio.current_time() - begun < 11
        await anyio.sleep(60)
        assert ended == ["a"]

    informed(scenario)


@pytest.mark.rule("inv-35")
def test_a_handler_that_waits_for_its_own_end_is_told_that_it_cannot(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(client: Client, informer: Informer) -> None:
        async def end_itself(delta: Delta) -> None:
            await registration.wait_removed()

        registration = informer.add_async_handler(end_itself)
        await make(client, "a")
        await anyio.sleep(1)
        assert not registration.removed

    informed(scenario)
    assert "a handler cannot wait for its own end" in caplog.text


@pytest.mark.rule("inv-15")
def test_an_asynchronous_handler_that_raises_goes_on_with_the_next_change() -> None:
    async def scenario(client: Client, informer: Informer) -> None:
        heard: list[str] = []

        async def broken_once(delta: Delta) -> None:
            heard.append(delta.last.key.name)
            if len(heard) == 1:
                raise RuntimeError("broken")

        informer.add_async_handler(broken_once)
        await make(client, "a", "b")
        assert heard == ["a", "b"]

    informed(scenario)


@pytest.mark.rule("inv-29")
@pytest.mark.rule("inv-32")
def test_a_resync_replays_the_store_to_those_who_asked_and_is_marked_as_such() -> None:
    async def scenario(client: Client, informer: Informer) -> None:
        replayed: list[Delta] = []
        others: list[Delta] = []
        registration = informer.add_handler(replayed.append, resync=3600)
        informer.add_handler(others.append)
        await make(client, "a", "b")
        await anyio.sleep(2 * 3600 * 1.1)
        again = [delta for delta in replayed if delta.resync]
        assert len(again) == 4
        assert all(delta.old is delta.new for delta in again)
        assert len(others) == 2
        registration.remove()
        await anyio.sleep(2 * 3600 * 1.1)
        assert len(replayed) == 6

    informed(scenario)


@pytest.mark.rule("inv-32")
def test_a_resync_leaves_out_what_the_handler_has_yet_to_hear() -> None:
    async def scenario(client: Client, informer: Informer) -> None:
        heard: list[tuple[int, bool]] = []

        async def take_time(delta: Delta) -> None:
            await anyio.sleep(50)
            heard.append((delta.last.version, delta.resync))

        informer.add_async_handler(take_time, resync=20)
        await make(client, "a")
        await anyio.sleep(49)
        assert informer.status().backlog == 1
        await anyio.sleep(40)
        assert [resync for _, resync in heard] == [False]

    informed(scenario)


def test_what_an_asynchronous_handler_was_at_when_the_informer_stopped_comes_again() -> None:
    async def run() -> None:
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

    simulate(run)
