"""The pages of a manager, over real sockets and in real time."""

import errno
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import pytest
from attrs import frozen

from informers import HttpRequest, Response
from reconcile import Client, Context, Controller, LeaderElection, Manager, Object, ObjectMeta, resource
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.models import definition_of
from reconcile.ops import page_connections
from reconcile.ops.page_routes import refusal_of
from reconcile.ops.serving_addresses import Address, ServeError, parse_address


@frozen
class LampSpec:
    watts: int = 1


@resource("lamps.example.com/v1")
class Lamp(Object):
    spec: LampSpec = LampSpec()


class HeldTransport(InProcessTransport):
    """Lists and watches are not answered until `go` is set."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.go = anyio.Event()

    def stream(self, request: HttpRequest) -> Any:
        return self._held(super().stream(request))

    @asynccontextmanager
    async def _held(self, stream: Any) -> AsyncIterator[Any]:
        await self.go.wait()
        async with stream as answer:
            yield answer

    async def request(self, request: HttpRequest) -> Response:
        if request.method == "GET":
            await self.go.wait()
        return await super().request(request)


class World:
    def __init__(self) -> None:
        self.server = ApiServer()
        self.transport = HeldTransport(self.server)
        self.client = Client(InProcessTransport(self.server))

    async def make(self, name: str) -> None:
        await self.client.create(Lamp(metadata=ObjectMeta(name, "default")))

    @asynccontextmanager
    async def running(self, *controllers: Controller[Any], held: bool = False, **options: Any) -> Any:
        """A manager that serves, as soon as it does; `ask` gets pages of it."""
        await self.client.apply(definition_of(Lamp))
        if not held:
            self.transport.go.set()
        options = {"serve": "127.0.0.1:0", "stop_seconds": 1, **options}
        manager = Manager(*controllers, transport=self.transport, environ={}, **options)
        async with anyio.create_task_group() as group, aiohttp.ClientSession() as session:
            group.start_soon(self.server.run)
            group.start_soon(manager.run)
            while not manager.address:
                await anyio.sleep(0.005)
            yield manager, Asker(session, manager.address)
            group.cancel_scope.cancel()


@frozen
class Asker:
    session: aiohttp.ClientSession
    address: str

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(f"http://{self.address}{path}") as answer:
            return answer.status, await answer.text()

    async def until(self, path: str, text: str) -> str:
        with anyio.fail_after(5):
            while True:
                _, body = await self.get(path)
                if text in body:
                    return body
                await anyio.sleep(0.01)


async def light(ctx: Context[Lamp]) -> None:
    if ctx.object.name == "broken":
        raise ValueError("no bulb")
    if ctx.object.name == "slow":
        await wait_for_the_electrician()


async def wait_for_the_electrician() -> None:
    await anyio.sleep(3600)


lamps = Controller(Lamp, light)


@pytest.mark.rule("M3")
async def test_pages_respond_before_the_first_lists_and_ready_when_makes_readiness_wait_for_them() -> None:
    async with World().running(lamps, held=True) as (_, ask):
        assert await ask.get("/healthz") == (200, "ok")
        assert await ask.get("/readyz") == (200, "ok")
        assert "reconcile_informer_synced{" in (await ask.get("/metrics"))[1]
    world = World()
    async with world.running(lamps, held=True, ready_when="synced") as (_, ask):
        assert await ask.get("/readyz") == (
            500,
            "[+]ping ok\n[-]caches failed: reason withheld\nreadyz check failed\n",
        )
        assert await ask.get("/healthz") == (200, "ok")
        world.transport.go.set()
        await ask.until("/readyz?verbose", "[+]caches ok")


@pytest.mark.rule("M3")
async def test_pages_respond_until_the_last_run_has_ended() -> None:
    ending = anyio.Event()

    async def linger(ctx: Context[Lamp]) -> None:
        try:
            await anyio.sleep(3600)
        finally:
            ending.set()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.3)

    world = World()
    async with world.running(Controller(Lamp, linger)) as (manager, ask):
        await world.make("a")
        await ask.until("/debug/state", '"key": "default/a"')
        manager.stop()
        await ending.wait()
        assert await ask.get("/healthz") == (200, "ok")
        with anyio.fail_after(5):
            while manager.address:
                await anyio.sleep(0.01)
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask.get("/healthz")


async def test_readiness_can_follow_leadership() -> None:
    world = World()
    election = LeaderElection("lamps")
    async with world.running(lamps, ready_when="leading", leader_election=election) as (_, ask):
        await ask.until("/readyz?verbose", "[+]leader ok")
        assert 'leader_election_master_status{name="lamps"} 1.0' in (await ask.get("/metrics"))[1]
        second_world = World()
        second_world.server, second_world.transport = world.server, HeldTransport(world.server)
        second = Manager(
            lamps,
            transport=second_world.transport,
            serve="127.0.0.1:0",
            ready_when="leading",
            leader_election=election,
            environ={},
        )
        second_world.transport.go.set()
        async with second:
            standby = Asker(ask.session, second.address)
            status, text = await standby.get("/readyz")
            assert (status, "[-]leader failed" in text, "[+]caches ok" in text) == (500, True, True)
            assert 'leader_election_master_status{name="lamps"} 0.0' in (await standby.get("/metrics"))[1]
            seen = json.loads((await standby.get("/debug/state"))[1])
            assert seen["leading"] is False
            assert seen["leader"] == json.loads((await ask.get("/debug/state"))[1])["leader"] != ""


async def test_user_checks_have_separate_pages_can_be_excluded_and_do_not_reveal_their_reasons() -> None:
    def broken() -> None:
        raise RuntimeError("the password of the database is hunter2")

    async with World().running(lamps, liveness={"database": broken}, readiness={"disk": lambda: None}) as (
        _,
        ask,
    ):
        status, text = await ask.get("/healthz")
        assert status == 500
        assert text == (
            "[+]ping ok\n[+]event-loop ok\n[-]database failed: reason withheld\nhealthz check failed\n"
        )
        assert await ask.get("/healthz?exclude=database") == (200, "ok")
        assert (await ask.get("/healthz/database"))[0] == 500
        assert await ask.get("/healthz/ping") == (200, "ok")
        assert (await ask.get("/healthz/nothing"))[0] == 404
        assert (await ask.get("/readyz/disk"))[0] == 200
        status, text = await ask.get("/readyz?verbose&exclude=moon")
        assert status == 200
        assert text == (
            "[+]ping ok\n[+]disk ok\n"
            'warn: some health checks cannot be excluded: no matches for "moon"\nreadyz check passed\n'
        )


async def test_the_state_shows_queues_with_causes_running_and_recent_runs_and_informers() -> None:
    world = World()
    async with world.running(Controller(Lamp, light, workers=1)) as (_, ask):
        await world.make("broken")
        await ask.until("/debug/state", "no bulb")
        await world.make("slow")
        await ask.until("/debug/state", "wait_for_the_electrician")
        await world.make("waiting")
        await ask.until("/debug/state", '"key": "default/waiting"')
        state = json.loads((await ask.get("/debug/state"))[1])
    assert (state["server"], state["leading"]) == ("embedded", True)
    assert [(i["resource"], i["synced"], i["objects"]) for i in state["informers"]] == [
        ("lamps.lamps.example.com", True, 3)
    ]
    controller = state["controllers"]["lamp"]
    (running,) = controller["running"]
    assert running["key"] == "default/slow"
    assert 0 <= running["age"] < 5
    assert running["causes"][0].startswith("lamps.lamps.example.com default/slow added at ")
    assert "test_pages.py" in running["waits_at"]
    assert running["waits_at"].endswith("in wait_for_the_electrician")
    queued = {entry["key"]: entry for entry in controller["queue"]["keys"]}
    assert set(queued) == {"default/broken", "default/waiting"}
    assert "a retry" in queued["default/broken"]["causes"]
    assert queued["default/broken"]["retries"] >= 1
    past = controller["recent"]["default/broken"][-1]
    assert (past["result"], past["error"]) == ("error", "ValueError: no bulb")
    assert len(past["reconcile_id"]) == 8


@pytest.mark.rule("storm-desk")
@pytest.mark.parametrize(
    ("remote", "host", "header", "why"),
    [
        ("127.0.0.1", "127.0.0.1:8080", "Accept", ""),
        ("::1", "[::1]:8080", "User-Agent", ""),
        ("127.0.0.1", "localhost", "X-Reconcile", ""),
        ("10.0.0.7", "127.0.0.1", "Accept", "kubectl port-forward"),
        ("127.0.0.6", "127.0.0.1", "Accept", "kubectl port-forward"),
        ("", "127.0.0.1", "Accept", "kubectl port-forward"),
        ("127.0.0.1", "rebound.example.com", "Accept", "ask for 127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "X-Forwarded-For", "request: header X-Forwarded-For"),
        ("127.0.0.1", "127.0.0.1", "forwarded", "a proxy forwarded the request: header forwarded"),
        ("127.0.0.1", "127.0.0.1", "x-envoy-attempt-count", "forwarded"),
        ("127.0.0.1", "127.0.0.1", "L5d-Client-Id", "forwarded"),
    ],
)
def test_forwarded_requests_and_requests_of_web_pages_do_not_count_as_local(
    remote: str, host: str, header: str, why: str
) -> None:
    refusal = refusal_of(remote, host, [header])
    assert why in refusal
    assert bool(why) is bool(refusal)


@pytest.mark.rule("storm-desk")
async def test_the_state_is_not_shown_to_a_web_page_whose_host_name_resolves_here() -> None:
    async with World().running(lamps) as (manager, ask):

        async def state(**headers: str) -> int:
            url = f"http://{manager.address}/debug/state"
            async with ask.session.get(url, headers={**headers}) as answer:
                return int(answer.status)

        assert await state() == 200
        assert await state(Host="rebound.example.com") == 403
        assert await state(Forwarded="for=10.0.0.7") == 403


@pytest.mark.rule("declared-metrics")
async def test_metrics_can_be_restricted_to_this_machine() -> None:
    for option, forwarded in (("local", 403), ("all", 200)):
        async with World().running(lamps, serve_metrics=option) as (manager, ask):
            url = f"http://{manager.address}/metrics"
            async with ask.session.get(url) as answer:
                assert answer.status == 200
            async with ask.session.get(url, headers={"X-Forwarded-For": "10.0.0.7"}) as answer:
                assert answer.status == forwarded
            async with ask.session.get(url.replace("metrics", "healthz"), headers={"Via": "a"}) as answer:
                assert answer.status == 200


def test_an_unknown_audience_for_metrics_is_refused_at_construction() -> None:
    with pytest.raises(ValueError, match="serve_metrics: expected one of all, local, got 'some'"):
        Manager(lamps, serve_metrics="some")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", Address("127.0.0.1", 8080)),
        (":8080", Address("", 8080)),
        ("10.0.0.7:0", Address("10.0.0.7", 0)),
        ("[::1]:8080", Address("::1", 8080)),
    ],
)
def test_an_address_without_a_host_is_loopback_and_one_with_an_empty_host_all_interfaces(
    text: str, address: Address
) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":65536", "1.2.3.4:-1"])
def test_an_invalid_address_is_refused_at_construction(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)
    if text:
        with pytest.raises(ValueError, match="HOST:PORT"):
            Manager(lamps, serve=text)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_all_interfaces_includes_both_address_families() -> None:
    manager = Manager(lamps, transport=InProcessTransport(ApiServer()), serve=":0", environ={})
    await Client(manager.transport).apply(definition_of(Lamp))  # type: ignore[arg-type]
    async with manager, aiohttp.ClientSession() as session:
        port = manager.address.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]"):
            async with session.get(f"http://{host}:{port}/healthz") as answer:
                assert answer.status == 200


@pytest.mark.parametrize("error", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
async def test_if_one_address_family_is_missing_the_other_is_served(
    error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = page_connections._bound

    def bind(family: int, place: tuple[object, ...]) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(error, "no IPv6 here")
        return bound(family, place)

    monkeypatch.setattr(page_connections, "_bound", bind)
    (listener,) = await page_connections.listen("", 0)
    with listener:
        assert listener.getsockname()[0] == "0.0.0.0"
    with pytest.raises(OSError, match="no IPv6 here"):
        await page_connections.listen("::1", 0)


async def test_a_port_in_use_fails_the_start_and_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        manager = Manager(lamps, transport=InProcessTransport(ApiServer()), serve=address, environ={})
        with pytest.raises(ServeError, match=f"cannot serve on {address}"):
            await manager.run()
