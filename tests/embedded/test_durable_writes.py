"""What is answered is on disk, and what cannot be written leaves no trace."""

import asyncio
import errno
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from attrs import define, field

from informers.transport import Response
from reconcile.embedded import ApiRequest, ApiServer, WatchStream
from reconcile.embedded.durable import journal, segments
from reconcile.testing import eventually
from tests.embedded.api_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    WIDGETS,
    Api,
    config_map,
    definition,
    events,
    owned_by,
    widget,
)
from tests.embedded.durable_worlds import kept, objects


@define
class Disk:
    """What a disk does to the writes and syncs of the log; `broken` refuses them."""

    broken: OSError | None = None
    at: str = "write"
    syncs: int = 0
    part: int = 0  # bytes that are written all the same
    _write: Callable[[int, bytes], None] = field(default=segments.write_all)
    _sync: Callable[[int], None] = field(default=segments.sync)

    def write(self, descriptor: int, data: bytes) -> None:
        if self.broken is not None and self.at == "write":
            self._write(descriptor, data[: self.part])
            raise self.broken
        self._write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.broken is not None and self.at in ("sync", "write"):
            raise self.broken
        self._sync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(segments, "write_all", disk.write)
    monkeypatch.setattr(segments, "sync", disk.sync)
    monkeypatch.setattr(journal, "RETRY_SECONDS", 0.05)
    return disk


@pytest.fixture
def api(disk: Disk, tmp_path: Path) -> Iterator[Api]:
    with kept(tmp_path / "data") as api:
        yield api


def post(name: str, path: str = CONFIG_MAPS) -> ApiRequest:
    body = config_map(name) if path == CONFIG_MAPS else widget(name)
    return ApiRequest("POST", path, {}, {"content-type": "application/json"}, msgspec.json.encode(body))


async def status(server: ApiServer, request: ApiRequest) -> int:
    answer = await server.respond(request)
    assert isinstance(answer, Response)
    return answer.status


async def retried(server: ApiServer) -> None:
    """Wait until a server that refuses writes tries them again."""
    await eventually(lambda: not journal_of(server).refusing, every=0.001)


def journal_of(server: ApiServer) -> journal.FileJournal:
    assert server._journal is not None
    return server._journal


GONE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "gone", "uid": "00000000-0000-4000-8000-000000000000"},
}
FULL = OSError(errno.ENOSPC, "No space left on device")
FAULTS = [
    (FULL, "write", 0),
    (FULL, "write", 50),
    (OSError(errno.EROFS, "Read-only file system"), "write", 0),
    (OSError(errno.EIO, "Input/output error"), "sync", 0),
]


@pytest.mark.parametrize(("error", "at", "part"), FAULTS)
def test_a_write_that_cannot_be_kept_is_a_500_that_leaves_no_trace(
    api: Api, disk: Disk, tmp_path: Path, error: OSError, at: str, part: int
) -> None:
    api.ok("POST", CONFIG_MAPS, config_map("before"))
    state, version = objects(api.server), api.server.version
    watch = api.watch(CONFIG_MAPS, resourceVersion=str(version))
    disk.broken, disk.at, disk.part = error, at, part
    for method, path, body in (
        ("POST", CONFIG_MAPS, config_map("b")),
        ("DELETE", f"{CONFIG_MAPS}/before", None),
        ("PUT", f"{CONFIG_MAPS}/before", config_map("before", {"a": "b"})),
        ("POST", DEFINITIONS, definition(group="other.example.com")),
    ):
        answer = api.send(method, path, body)
        assert (answer.status, answer.body["reason"]) == (500, "InternalError")
        assert error.strerror in answer.body["message"]
        assert (objects(api.server), api.server.version) == (state, version)
        assert [one["metadata"]["name"] for one in api.ok("GET", CONFIG_MAPS)["items"]] == ["before"]
        api.server.settle()
    assert watch.take() == []
    disk.broken = None
    api.ok("POST", CONFIG_MAPS, config_map("after"))
    assert [obj["metadata"]["name"] for _, obj in events(watch)] == ["after"]
    state = objects(api.server)
    with kept(copy_of(tmp_path)) as other:
        assert objects(other.server) == state


def copy_of(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tmp_path / "data", tmp_path / "copy"))


async def test_reads_go_on_while_writes_are_refused_and_writes_work_again_by_themselves(
    api: Api, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "RETRY_SECONDS", 3600)
    server = api.server
    assert await status(server, post("a")) == 201
    disk.broken = FULL
    read = ApiRequest("GET", CONFIG_MAPS)
    answers = await asyncio.gather(*(status(server, one) for one in (post("b"), read, post("c"), read)))
    assert answers == [500, 200, 500, 200]
    syncs = disk.syncs
    assert await status(server, post("d")) == 500
    assert await status(server, read) == 200
    assert disk.syncs == syncs  # refused at once, without another try
    journal_of(server)._try_again()
    assert await status(server, post("d")) == 500
    assert disk.syncs > syncs
    disk.broken = None
    journal_of(server)._try_again()
    assert await status(server, post("e")) == 201
    assert sorted(key[-1] for key in objects(server) if key[1] == "configmaps") == ["a", "e"]


async def test_a_version_is_not_given_out_twice(api: Api, disk: Disk) -> None:
    answer = await api.server.respond(post("a"))
    assert isinstance(answer, Response)
    first = int(msgspec.json.decode(answer.body)["metadata"]["resourceVersion"])
    disk.broken = FULL
    await asyncio.gather(*(status(api.server, post(name)) for name in "bcd"))
    disk.broken = None
    await retried(api.server)
    answer = await api.server.respond(post("e"))
    assert isinstance(answer, Response)
    assert int(msgspec.json.decode(answer.body)["metadata"]["resourceVersion"]) == first + 4


async def test_writes_that_wait_together_are_synced_together(api: Api, disk: Disk) -> None:
    before = disk.syncs
    answers = await asyncio.gather(*(status(api.server, post(f"m{number}")) for number in range(200)))
    assert answers == [201] * 200
    assert disk.syncs - before < 100


async def test_nothing_is_shown_before_it_is_on_disk(
    api: Api, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, reached, through = threading.Event(), threading.Event(), segments.sync

    def slowly(descriptor: int) -> None:
        reached.set()
        assert gate.wait(20)
        through(descriptor)

    watch = api.watch(CONFIG_MAPS, resourceVersion=str(api.server.version))
    monkeypatch.setattr(segments, "sync", slowly)
    writing = asyncio.create_task(status(api.server, post("a")))
    assert await asyncio.to_thread(reached.wait, 20)
    reading = [
        asyncio.create_task(status(api.server, ApiRequest("GET", f"{CONFIG_MAPS}/a"))),
        asyncio.create_task(status(api.server, ApiRequest("GET", CONFIG_MAPS))),
        asyncio.create_task(opened(api.server)),
    ]
    await eventually(lambda: len(journal_of(api.server)._waiting) == 4, every=0.001)
    assert watch.take() == []
    assert not any(task.done() for task in (writing, *reading))
    gate.set()
    assert await writing == 201
    assert [await task for task in reading] == [200, 200, 1]
    assert [obj["metadata"]["name"] for _, obj in events(watch)] == ["a"]


async def opened(server: ApiServer) -> int:
    """How many objects a new watch begins with."""
    watch = await server.respond(ApiRequest("GET", CONFIG_MAPS, {"watch": "1"}))
    assert isinstance(watch, WatchStream)
    return len(watch.take())


async def test_a_watch_that_waits_hears_of_a_change_once_it_is_on_disk(api: Api) -> None:
    watch = await api.server.respond(ApiRequest("GET", CONFIG_MAPS, {"watch": "1", "resourceVersion": "0"}))
    assert isinstance(watch, WatchStream)
    waiting = asyncio.create_task(_heard(watch))
    await asyncio.sleep(0)
    assert await status(api.server, post("a")) == 201
    assert await asyncio.wait_for(waiting, 5) == [("ADDED", "a")]


async def _heard(watch: WatchStream) -> list[tuple[str, str]]:
    await watch.wait()
    return [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)]


async def test_a_write_that_is_cancelled_while_it_waits_is_kept(api: Api, tmp_path: Path) -> None:
    writing = asyncio.create_task(status(api.server, post("a")))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await status(api.server, ApiRequest("GET", f"{CONFIG_MAPS}/a")) == 200
    with kept(copy_of(tmp_path)) as other:
        assert other.ok("GET", f"{CONFIG_MAPS}/a")


def test_controllers_do_their_work_again_that_could_not_be_kept(api: Api, disk: Disk) -> None:
    owner = api.ok("POST", CONFIG_MAPS, config_map("owner"))
    api.ok("POST", CONFIG_MAPS, config_map("owned", ownerReferences=owned_by(owner)))
    api.ok("DELETE", f"{CONFIG_MAPS}/owner")
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "ends"}})
    api.ok("POST", "/api/v1/namespaces/ends/configmaps", config_map())
    api.ok("DELETE", "/api/v1/namespaces/ends")
    disk.broken = FULL
    api.server.settle()
    assert not api.gone(f"{CONFIG_MAPS}/owned")
    assert not api.gone("/api/v1/namespaces/ends/configmaps/a")
    disk.broken = None
    api.server.settle()
    assert api.gone(f"{CONFIG_MAPS}/owned")
    assert api.gone("/api/v1/namespaces/ends")


def test_a_definition_that_could_not_be_kept_is_not_served(api: Api, disk: Disk) -> None:
    api.ok("DELETE", f"{DEFINITIONS}/widgets.example.com")
    api.server.settle()
    assert api.send("GET", WIDGETS).status == 404
    disk.broken = FULL
    assert api.send("POST", DEFINITIONS, definition()).status == 500
    assert api.send("GET", WIDGETS).status == 404
    disk.broken = None
    api.ok("POST", DEFINITIONS, definition())
    assert api.ok("GET", WIDGETS)["items"] == []
    disk.broken = FULL
    assert api.send("DELETE", f"{DEFINITIONS}/widgets.example.com").status == 500
    api.server.settle()
    assert api.ok("GET", WIDGETS)["items"] == []


async def test_the_server_runs_on_while_nothing_can_be_written(api: Api, disk: Disk) -> None:
    running = asyncio.create_task(api.server.run())
    disk.broken = FULL
    for _ in range(3):
        assert await status(api.server, post("a")) == 500
        await retried(api.server)
    assert not running.done()
    disk.broken = None
    assert await status(api.server, post("a")) == 201
    running.cancel()


async def test_controllers_go_on_by_themselves_once_it_is_possible_again(api: Api, disk: Disk) -> None:
    server = api.server
    body = msgspec.json.encode(config_map("b", ownerReferences=owned_by(GONE)))
    created = ApiRequest("POST", CONFIG_MAPS, {}, {"content-type": "application/json"}, body)
    assert await status(server, created) == 201
    disk.broken = FULL
    running = asyncio.create_task(server.run())
    await eventually(lambda: journal_of(server).losses >= 2, every=0.001)
    read = ApiRequest("GET", f"{CONFIG_MAPS}/b")
    assert await status(server, read) == 200
    disk.broken = None

    async def collected() -> bool:
        return await status(server, read) == 404

    await eventually(collected, every=0.001)
    running.cancel()


_LIMITED = """
import resource, sys, json
from pathlib import Path
from reconcile.embedded.durable.data_folder import DataFolder
from tests.embedded.api_client import Api, CONFIG_MAPS, config_map
with DataFolder(Path(sys.argv[1])) as folder:
    api = Api(data=folder)
    most = (Path(sys.argv[1]) / "segment-00000001.log").stat().st_size + 50_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    maps = [config_map(f"m{n}", {"a": "x" * 3000}) for n in range(40)]
    answers = [api.send("POST", CONFIG_MAPS, one).status for one in maps]
    listed = len(api.ok("GET", CONFIG_MAPS)["items"])
    print(json.dumps([answers, listed]))
"""


def test_a_file_that_may_not_grow_refuses_writes_and_keeps_what_it_answered(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    answers, listed = msgspec.json.decode(done.stdout.splitlines()[-1])
    made = answers.count(201)
    assert 0 < made < 40
    assert set(answers) == {201, 500}
    assert listed == made
    with kept(tmp_path / "data") as api:
        assert len(api.ok("GET", CONFIG_MAPS)["items"]) == made
