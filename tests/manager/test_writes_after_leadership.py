"""No write leaves after leadership has ended, however long it waited on its way to the socket."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from informers import HttpRequest, kubernetes
from informers import transport as transport_module
from informers.clock import SystemClock
from reconcile import Client, LeaderElection
from reconcile.client.certainty import LedTransport
from reconcile.client.guarded_writes import NotLeading
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import OutcomeUnknown
from reconcile.manager.leadership import LeaderElector, LeaseTerms
from reconcile.testing import VirtualClock
from tests.helpers.scenarios import simulated
from tests.helpers.tasks import beside
from tests.informers.conftest import Connect, connecting  # noqa: F401
from tests.informers.http_peer import Seen, always, reply, serving

CERTAIN = 1.0
"""Seconds for which leadership is certain after a renewal."""
TERMS = LeaseTerms(duration=1.5, renew_deadline=CERTAIN, retry=0.4)


async def leading(clock: Any = None) -> LeaderElector:
    """An elector that has just taken its Lease, on a server of its own."""
    clock = clock or SystemClock()
    client = Client(InProcessTransport(ApiServer(clock=clock)), clock=clock)
    elector = LeaderElector(client, LeaderElection("lock", "default", "me"), TERMS)
    await elector.acquire()
    return elector


async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await anyio.sleep(30)


async def write(transport: LedTransport, name: str = "a") -> str:
    """How a write ended."""
    try:
        await transport.request(HttpRequest("POST", f"/api/v1/{name}", body=b"{}"))
    except (NotLeading, OutcomeUnknown) as error:
        return type(error).__name__
    return "answered"


@asynccontextmanager
async def holding(elector: LeaderElector) -> AsyncIterator[None]:
    async with beside(elector.hold):
        yield


@pytest.mark.rule("L10")
async def test_a_write_that_waits_for_a_connection_when_leadership_ends_is_not_sent(
    connecting: Connect,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes, "_PARALLEL_REQUESTS", 1)
    async with serving(silent) as peer:
        led = LedTransport(await connecting(peer.port), (await leading()).certainty)
        first, second = asyncio.create_task(write(led, "first")), asyncio.create_task(write(led, "second"))
        assert (await first, await second) == ("OutcomeUnknown", "NotLeading")
        assert [seen.target for seen in peer.seen] == ["/api/v1/first"]


@pytest.mark.rule("L10")
async def test_a_write_that_waits_for_other_credentials_when_leadership_ends_is_not_sent_again(
    connecting: Connect,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(always(reply(401))) as peer:
        transport = await connecting(peer.port)

        async def renew(refused: object) -> bool:
            time.sleep(CERTAIN + 0.1)  # noqa: ASYNC251 - the whole process stands still
            return True

        monkeypatch.setattr(transport._credentials, "renew", renew)
        led = LedTransport(transport, (await leading()).certainty)
        assert await write(led) in ("NotLeading", "OutcomeUnknown")
        assert len(peer.seen) == 1


@pytest.mark.rule("L10")
@pytest.mark.parametrize("turns", range(12))
async def test_a_suspended_process_sends_nothing_when_it_resumes(
    turns: int,
    connecting: Connect,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed: list[float] = []

    def about_to_send() -> None:
        transport_module.about_to_send()
        allowed.append(time.monotonic())

    monkeypatch.setattr(kubernetes, "about_to_send", about_to_send)
    async with serving(always(reply())) as peer:
        led = LedTransport(await connecting(peer.port), (await leading()).certainty)
        task = asyncio.create_task(write(led))
        for _ in range(turns):
            await asyncio.sleep(0)
        stood_still_at = time.monotonic()
        time.sleep(CERTAIN + 0.1)  # noqa: ASYNC251 - the whole process stands still
        ended = await task
        await anyio.sleep(0.05)
        assert all(at < stood_still_at for at in allowed)
        assert len(peer.seen) == (0 if ended == "NotLeading" else 1)


@pytest.mark.rule("L10")
async def test_a_slow_write_continues_while_leadership_is_renewed(connecting: Connect) -> None:  # noqa: F811
    async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await anyio.sleep(2 * CERTAIN)
        writer.write(reply())

    async with serving(slow) as peer:
        elector = await leading()
        led = LedTransport(await connecting(peer.port), elector.certainty)
        async with holding(elector):
            assert await write(led) == "answered"


@pytest.mark.rule("L10")
@simulated
async def test_the_time_of_a_suspension_counts_against_the_lease() -> None:
    clock = VirtualClock(1)
    elector = await leading(clock)
    assert elector.is_leader
    clock.suspended_seconds += CERTAIN
    assert not elector.is_leader


def test_the_time_of_a_suspension_is_read_from_the_machine() -> None:
    assert SystemClock().suspended() >= -0.001
    assert abs(SystemClock().suspended() - SystemClock().suspended()) < 0.01


async def test_a_lease_is_renewed_while_slow_writes_hold_every_connection(
    connecting: Connect,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes, "_PARALLEL_REQUESTS", 2)

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if "coordination.k8s.io" not in seen.target:
            await anyio.sleep(30)
        writer.write(reply())

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(transport.request, HttpRequest("POST", f"/api/v1/{number}", body=b"{}"))
            await anyio.sleep(0.1)
            with anyio.fail_after(2):
                lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/lock"
                assert (await transport.request(HttpRequest("PUT", lease, body=b"{}"))).status == 200
            group.cancel_scope.cancel()
