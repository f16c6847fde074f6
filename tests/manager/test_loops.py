"""Several event loops in one process that share objects as replicas do; here they take turns on one core."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

import reconcile.manager.option_checks
from informers.kubernetes import connect
from reconcile import Client, Context, Controller, Intent, Manager, ObjectMeta
from reconcile.client.certainty import LeadershipLost
from reconcile.embedded import ApiServer
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.kinds import ConfigMap, Lease, Secret
from reconcile.manager.interpreter import has_gil
from reconcile.manager.option_list import ConfigurationError
from reconcile.recording import read_recording
from reconcile.sharding import Sharding
from reconcile.testing import FakeClient
from reconcile.testing.recorded_runs import replay_recording

RING = Sharding("copies", buckets=16)
NAMES = [f"map-{number}" for number in range(24)]

pytestmark = pytest.mark.rule("loops")


@pytest.fixture
def parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Python without the lock."""
    monkeypatch.setattr(reconcile.manager.option_checks, "has_gil", lambda: False)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: None) -> Path:
    """Where the kubeconfig is that managers find."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path / "kubeconfig"


@asynccontextmanager
async def served(kubeconfig: Path) -> AsyncIterator[Client]:
    """A client of a server over HTTPS, which is that of the kubeconfig too."""
    server = ApiServer()
    async with anyio.create_task_group() as tasks, serve(server, token="t") as face:
        tasks.start_soon(server.run)
        write_kubeconfig(kubeconfig, face.url, face.ca_pem, face.token)
        transport = await connect(kubeconfig)
        yield Client(transport)
        await transport.aclose()
        tasks.cancel_scope.cancel()


class Copies:
    """A controller of ConfigMaps, and the threads in which each was run last."""

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}
        self.runs: defaultdict[str, int] = defaultdict(int)
        self.controller = Controller(ConfigMap, self.copy, owns=[Secret], operator="example.com")

    async def copy(self, ctx: Context[ConfigMap]) -> None:
        await ctx.apply(Intent(Secret, metadata=ObjectMeta(ctx.object.name, "default")))
        self.threads[ctx.object.name] = threading.current_thread().name
        self.runs[ctx.object.name] += 1

    def manager(self, **options: Any) -> Manager:
        return Manager(self.controller, **{"loops": 3, "sharding": RING, "environ": {}, **options})


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(50):
        while not condition():
            await anyio.sleep(0.01)


async def create_all(client: Client) -> None:
    for name in NAMES:
        await client.create(ConfigMap(metadata=ObjectMeta(name, "default")))


async def test_three_loops_share_the_objects_and_leave_no_lease_behind(place: Path) -> None:
    async with served(place) as client:
        await create_all(client)
        copies = Copies()
        async with copies.manager() as manager:
            await until(lambda: len(copies.threads) == len(NAMES) and len(set(copies.threads.values())) == 3)
            held = {one.spec.holder_identity for one in await client.list(Lease, "default")}
            first = manager.status().sharding
            assert first is not None
            assert {first.identity, f"{first.identity}-2", f"{first.identity}-3"} <= held
            copies.runs.clear()
            for name in NAMES:
                manager.trigger(copies.controller, f"default/{name}", "by hand")
            await until(lambda: len(copies.runs) == len(NAMES))
            await anyio.sleep(0.1)
            assert set(copies.runs.values()) == {1}
        members = [one for one in await client.list(Lease, "default") if one.name != "copies-assignment"]
        assert members == []
        assert not [one.name for one in threading.enumerate() if one.name.startswith("event loop")]


async def test_each_loop_has_pages_and_the_first_tells_whether_all_have_started(place: Path) -> None:
    async with served(place):
        copies = Copies()
        async with (
            copies.manager(loops=2, serve="127.0.0.1:0") as manager,
            aiohttp.ClientSession() as session,
        ):
            for page in ("healthz", "readyz"):
                async with session.get(f"http://{manager.address}/{page}/loops") as answer:
                    assert answer.status == 200


def test_each_loop_records_its_part_to_a_file_of_its_own(place: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with served(place) as client:
            await create_all(client)
            copies = Copies()
            async with copies.manager(record=tmp_path / "copies.rec"):
                await until(
                    lambda: len(copies.threads) == len(NAMES) and len(set(copies.threads.values())) == 3
                )

    anyio.run(work)
    identities, runs = [], 0
    for name in ("copies.rec", "copies-2.rec", "copies-3.rec"):
        recording = read_recording(tmp_path / name)
        identities.append(recording.header.options["sharding"]["identity"])
        report = replay_recording(recording, [Copies().controller])
        assert report.identical, "\n".join(report.lines())
        runs += report.runs
    assert identities == [identities[0], f"{identities[0]}-2", f"{identities[0]}-3"]
    assert runs >= len(NAMES)


async def test_a_paused_controller_is_paused_in_all_loops(place: Path) -> None:
    async with served(place) as client:
        copies = Copies()
        async with copies.manager() as manager:
            manager.pause(copies.controller.name)
            await anyio.sleep(0.1)
            await create_all(client)
            await anyio.sleep(0.5)
            assert not copies.runs
            manager.resume(copies.controller.name)
            await until(lambda: len(copies.runs) == len(NAMES))


async def test_the_loss_of_one_lease_ends_all_loops(place: Path) -> None:
    async with served(place) as client:
        manager = Copies().manager(lease_seconds=1.5, renew_seconds=1.0, retry_seconds=0.2)
        with pytest.raises(LeadershipLost):
            async with manager:
                first = manager.status().sharding
                assert first is not None
                lease = await client.get(Lease, f"copies-{first.identity}-3", "default")
                await client.delete(lease)
                with anyio.fail_after(50):
                    await manager.wait()
        assert not [one.name for one in threading.enumerate() if one.name.startswith("event loop")]


async def test_a_cancelled_manager_ends_its_other_loops(place: Path) -> None:
    async with served(place):
        manager = Copies().manager()
        task = asyncio.create_task(manager.run())
        await until(lambda: any(one.name == "event loop 3" for one in threading.enumerate()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [one.name for one in threading.enumerate() if one.name.startswith("event loop")]


async def test_a_loop_that_cannot_begin_ends_the_start_of_the_manager(
    place: Path, unused_tcp_port: int
) -> None:
    async with served(place):
        taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", unused_tcp_port + 1)
        async with taken:
            with pytest.raises(Exception, match=f"{unused_tcp_port + 1}"):
                async with Copies().manager(loops=2, serve=f"127.0.0.1:{unused_tcp_port}"):
                    pass


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sharding": None}, "give sharding= too"),
        ({"transport": FakeClient().transport}, "loops=3 and transport exclude each other"),
        ({"embedded": True}, "loops=3 and embedded exclude each other"),
        ({"serve": ":65534"}, "65536"),
    ],
)
def test_options_that_do_not_fit_to_several_loops_are_refused(
    parallel: None, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Copies().manager(**options).configure()


@pytest.mark.skipif(not has_gil(), reason="this Python has no lock")
def test_a_python_whose_threads_take_turns_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(ConfigurationError, match=r"python3.14t.*Start 3 replicas of the ring instead"):
        Copies().manager().configure()


def test_one_loop_needs_neither() -> None:
    Copies().manager(loops=1, sharding=None).configure()
