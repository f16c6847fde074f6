"""What the embedded API server costs: its start, creates, lists, watches, validation, memory, what it keeps.

Objects are custom resources of 2 KB with a schema and managedFields, prepared before anything is timed. Each
measurement runs in a process of its own; over HTTP the server has one and the client another.
"""

import asyncio
import base64
import gc
import multiprocessing
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import msgspec
import yaml

from informers import Response
from informers.clock import SystemClock
from reconcile.embedded import ApiRequest, ApiServer, DataFolder, WatchStream
from reconcile.embedded.http import serve
from reconcile.embedded.schema import compile_schema
from tests.bench._harness import Figures, measured, resident
from tests.helpers.definitions import INTEGER, STRING, definition, list_of, object_of

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/bench.example.com/v1/namespaces/default/gadgets"
JSON = {"content-type": "application/json", "user-agent": "bench/1"}
CREATES = 4_000
OBJECTS = 20_000
CLIENTS = 8
WAITING = 100
WATCHERS = 10
EVENTS = 2_000
VALIDATIONS = 300

# --- objects --------------------------------------------------------------------------------------


STRINGS = {"type": "object", "additionalProperties": STRING}
AMOUNTS = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
RESOURCES = object_of(limits=AMOUNTS, requests=AMOUNTS)
NAMED = object_of("name", name=STRING, value=STRING)
PORT = object_of(
    port={"type": "integer", "minimum": 1, "maximum": 65535},
    protocol={**STRING, "default": "TCP"},
    name=STRING,
)
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
GADGET = object_of(
    spec=object_of(
        "image",
        image={**STRING, "minLength": 1},
        replicas={"type": "integer", "minimum": 0, "default": 1},
        mode={**STRING, "enum": ["auto", "off"], "default": "auto"},
        env=list_of(NAMED, **BY_NAME),
        ports=list_of(PORT),
        resources=RESOURCES,
        settings=STRINGS,
    ),
    status=object_of(ready=INTEGER),
)
DEFINITION = definition("Gadget", GADGET, group="bench.example.com")


def gadget(number: int) -> bytes:
    """A custom resource of 2 KB."""
    spec = {
        "image": f"registry.example.com/gadgets/app:{number}",
        "replicas": number % 9,
        "env": [{"name": f"VARIABLE_{k}", "value": f"{number}-{'v' * 40}-{k}"} for k in range(8)],
        "ports": [{"port": 8000 + k, "name": f"port-{k}"} for k in range(3)],
        "resources": {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "512Mi"}},
        "settings": {f"setting-{k}": f"{number}-{'s' * 50}" for k in range(9)},
    }
    metadata = {
        "name": f"gadget-{number}",
        "labels": {"app": "bench", "part": str(number % 10)},
        "annotations": {"example.com/note": "n" * 60},
    }
    body = {"apiVersion": "bench.example.com/v1", "kind": "Gadget", "metadata": metadata, "spec": spec}
    return msgspec.json.encode(body)


def ray_cluster_schema() -> dict[str, Any]:
    """A schema of the shape of a RayCluster's."""
    container = object_of(
        "name",
        name=STRING,
        image=STRING,
        args=list_of(STRING),
        env=list_of(NAMED),
        ports=list_of(object_of(containerPort={"type": "integer", "format": "int32"}, name=STRING)),
        resources=RESOURCES,
    )
    template = object_of(spec=object_of("containers", containers=list_of(container)))
    count = {"type": "integer", "format": "int32", "minimum": 0, "default": 0}
    group = object_of(
        *("groupName", "rayStartParams", "template"),
        groupName=STRING,
        minReplicas=count,
        maxReplicas=count,
        replicas=count,
        rayStartParams=STRINGS,
        template=template,
    )
    head = object_of("template", rayStartParams=STRINGS, template=template)
    return object_of(spec=object_of(headGroupSpec=head, workerGroupSpecs=list_of(group)))


def ray_cluster(groups: int) -> dict[str, Any]:
    """The spec of a RayCluster: 1 KB for its head and for each group of workers."""
    made = {
        "name": "ray",
        "image": "rayproject/ray:2.46.0",
        "args": ["--block", "--dashboard-host=0.0.0.0"],
        "env": [{"name": f"RAY_SETTING_{k}", "value": "x" * 30} for k in range(10)],
        "ports": [{"containerPort": 8000 + k, "name": f"port-{k}"} for k in range(3)],
        "resources": {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}},
    }
    part = {
        "rayStartParams": {"num-cpus": "1", "block": "true"},
        "template": {"spec": {"containers": [made]}},
    }
    workers = [
        {"groupName": f"workers-{k}", "replicas": 1, "minReplicas": 1, "maxReplicas": 5, **part}
        for k in range(groups)
    ]
    return {"headGroupSpec": part, "workerGroupSpecs": workers}


# --- what runs in a process of its own ------------------------------------------------------------


def ask(server: ApiServer, method: str, path: str, body: bytes = b"") -> bytes:
    answer = server.handle(ApiRequest(method, path, {}, JSON, body))
    assert not isinstance(answer, WatchStream)
    assert answer.status < 300, answer.body
    return answer.body


def make_server() -> ApiServer:
    server = ApiServer(clock=SystemClock())
    ask(server, "POST", DEFINITIONS, msgspec.json.encode(DEFINITION))
    return server


def inprocess() -> float:
    """Creates a second of CPU time, as a test on a machine of its own would see them."""
    server, bodies = make_server(), [gadget(number) for number in range(CREATES)]
    requests = [ApiRequest("POST", GADGETS, {}, JSON, body) for body in bodies]
    gc.collect()
    before = time.process_time()
    for request in requests:
        answer = server.handle(request)
    cpu = time.process_time() - before
    assert isinstance(answer, Response)
    assert answer.status == 201, answer.body
    return CREATES / cpu


def validating() -> float:
    """Microseconds of pruning, defaulting and validating one RayCluster."""
    obj = {"spec": ray_cluster(4)}
    schema = compile_schema(ray_cluster_schema())
    size = len(msgspec.json.encode(obj))
    assert 4_500 < size < 6_000, size
    copies = [msgspec.json.decode(msgspec.json.encode(obj)) for _ in range(VALIDATIONS)]
    assert schema.prune(copies[0]) == []
    before = time.process_time()
    for copy in copies:
        schema.prune(copy)
        schema.default(copy)
        assert schema.validate(copy) == []
    return (time.process_time() - before) / VALIDATIONS * 1e6


def holding() -> Figures:
    """Memory by what is held, and the time of a whole list."""
    server = make_server()
    gc.collect()
    before = resident()
    size = sum(len(ask(server, "POST", GADGETS, gadget(number))) for number in range(OBJECTS))
    gc.collect()
    ratio = (resident() - before) / size
    started = time.process_time()
    listed = ask(server, "GET", GADGETS)
    elapsed = time.process_time() - started
    assert len(listed) > size * 0.9
    return {"memory_ratio": ratio, "list_ms": elapsed * 1e3}


def starting() -> Figures:
    """Three spans: the imports; from there to the first answered request; and the whole of the command.

    The first two are within one process: from a bare interpreter to the imported modules, and from the call
    of `ApiServer` until a client has an answer over HTTPS. The whole is from starting `reconcile apiserver`
    to that answer, interpreter, imports, certificates and kubeconfig included.
    """
    code = (
        "import time; begun = time.perf_counter()\n"
        "import anyio, asyncio, ssl\n"
        "from reconcile.embedded import ApiServer\n"
        "from reconcile.embedded.http import serve\n"
        "imported = time.perf_counter()\n"
        "async def main():\n"
        "    async with serve(ApiServer(), token='t') as face:\n"
        "        context = ssl.create_default_context(cadata=face.ca_pem.decode())\n"
        "        host, port = face.url.removeprefix('https://').split(':')\n"
        "        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)\n"
        "        head = b'host: a\\r\\nauthorization: Bearer t\\r\\n\\r\\n'\n"
        "        writer.write(b'GET /version HTTP/1.1\\r\\n' + head)\n"
        "        assert b'200' in await reader.readline()\n"
        "        print((imported - begun) * 1e3, (time.perf_counter() - imported) * 1e3)\n"
        "        writer.close()\n"
        "anyio.run(main)\n"
    )
    runs = [subprocess.check_output([sys.executable, "-c", code], text=True).split() for _ in range(3)]
    whole = min(first_answer() for _ in range(3))
    return {
        "import_ms": min(float(run[0]) for run in runs),
        "ms": min(float(run[1]) for run in runs),
        "process_ms": whole * 1e3,
    }


def first_answer() -> float:
    """Seconds from starting the command to its first answer."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "reconcile", "apiserver", "--token", "bench"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        kubeconfig = Path(process.stdout.readline().partition("=")[2].strip())
        authority = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        context = ssl.create_default_context(
            cadata=base64.b64decode(authority["certificate-authority-data"]).decode()
        )
        asked = urllib.request.Request(f"{url}/version", headers={"authorization": "Bearer bench"})
        with urllib.request.urlopen(asked, context=context) as answer:
            assert answer.status == 200
        elapsed = time.perf_counter() - begun
        process.send_signal(signal.SIGINT)
    return elapsed


# --- on disk --------------------------------------------------------------------------------------


async def durable(path: str) -> float:
    """Durable creates a second, by wall time, `WAITING` of them at a time."""
    with DataFolder(Path(path)) as folder:
        server = ApiServer(data=folder)
        ask(server, "POST", DEFINITIONS, msgspec.json.encode(DEFINITION))
        rest = iter([ApiRequest("POST", GADGETS, {}, JSON, gadget(number)) for number in range(OBJECTS)])

        async def create() -> None:
            for request in rest:
                answer = await server.respond(request)
                assert isinstance(answer, Response)
                assert answer.status == 201, answer.body

        gc.collect()
        before = time.perf_counter()
        await asyncio.gather(*(create() for _ in range(WAITING)))
        return OBJECTS / (time.perf_counter() - before)


def durable_start(path: str) -> float:
    """Milliseconds from opening a folder with `OBJECTS` objects to an answer with one of them."""
    before = time.perf_counter()
    with DataFolder(Path(path)) as folder:
        server = ApiServer(data=folder)
        ask(server, "GET", f"{GADGETS}/gadget-1")
        elapsed = time.perf_counter() - before
        assert server.log.count(("bench.example.com", "gadgets")) == OBJECTS
    return elapsed * 1e3


def on_disk() -> Figures:
    """Both, on the disk of this repository: a folder for temporary files may be in memory."""
    place = Path(__file__).parents[2] / ".cache"
    place.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=place, prefix="bench-") as folder:
        data = f"{folder}/data"
        creates = measured(__name__, "durable", data)
        return {"creates": creates, "ms": min(measured(__name__, "durable_start", data) for _ in range(3))}


# --- over HTTP ------------------------------------------------------------------------------------


async def burst(server: ApiServer, count: int) -> None:
    """Create gadgets within the server, letting it deliver in between."""
    for number in range(count):
        ask(server, "POST", GADGETS, gadget(number))
        if number % 50 == 0:
            await asyncio.sleep(0)


def serving(connection: Any) -> None:
    """Serve until the other side says 0; any other number is how many gadgets to create by itself."""

    async def run() -> None:
        server = make_server()
        async with serve(server, token="bench") as face:
            connection.send((face.url, face.ca_pem))
            while True:
                while not connection.poll():
                    await asyncio.sleep(0.01)
                wanted = connection.recv()
                if not wanted:
                    return
                await burst(server, wanted)

    asyncio.run(run())


@contextmanager
def served() -> Iterator[tuple[Any, str, bytes]]:
    """A server in a process of its own: the line to it, its address and its authority."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serving, args=(there,), daemon=True)
    process.start()
    try:
        yield here, *here.recv()
    finally:
        here.send(0)
        process.join(5)


@asynccontextmanager
async def session(url: str, ca: bytes) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cadata=ca.decode())
    connector = aiohttp.TCPConnector(ssl=context, limit=CLIENTS + WATCHERS)
    headers = {**JSON, "authorization": "Bearer bench"}
    async with aiohttp.ClientSession(url, connector=connector, headers=headers) as client:
        yield client


async def create_all(client: aiohttp.ClientSession, bodies: Iterator[bytes]) -> None:
    for body in bodies:
        async with client.post(GADGETS, data=body) as response:
            await response.read()
            assert response.status == 201


async def http() -> float:
    """Creates a second over HTTPS, by wall time, with several clients at once."""
    with served() as (_, url, ca):
        async with session(url, ca) as client:
            rest = iter([gadget(number) for number in range(CREATES)])
            await create_all(client, islice(rest, 200))
            before = time.perf_counter()
            await asyncio.gather(*(create_all(client, rest) for _ in range(CLIENTS)))
            return (CREATES - 200) / (time.perf_counter() - before)


async def _watch(client: aiohttp.ClientSession, ready: asyncio.Event, lines: int) -> None:
    async with client.get(GADGETS, params={"watch": "1", "resourceVersion": "0"}) as response:
        ready.set()
        seen = 0
        async for chunk in response.content.iter_any():
            seen += chunk.count(b"\n")
            if seen >= lines:
                return


async def fanout() -> float:
    """Events a second over HTTPS to watchers that were there before, creates included, by wall time."""
    with served() as (connection, url, ca):
        async with session(url, ca) as client:
            ready = [asyncio.Event() for _ in range(WATCHERS)]
            watches = [asyncio.create_task(_watch(client, event, EVENTS)) for event in ready]
            await asyncio.gather(*(event.wait() for event in ready))
            before = time.perf_counter()
            connection.send(EVENTS)
            await asyncio.gather(*watches)
            return EVENTS * WATCHERS / (time.perf_counter() - before)


def figures() -> Figures:
    held, start = measured(__name__, "holding"), measured(__name__, "starting")
    disk = on_disk()
    return {
        "embedded.import_ms": start["import_ms"],
        "embedded.start_ms": start["ms"],
        "embedded.process_start_ms": start["process_ms"],
        "embedded.creates_per_s_inprocess": measured(__name__, "inprocess"),
        "embedded.creates_per_s_http": measured(__name__, "http"),
        "embedded.durable_creates_per_s": disk["creates"],
        "embedded.durable_start_ms": disk["ms"],
        "embedded.validate_us": measured(__name__, "validating"),
        "embedded.list_20k_ms": held["list_ms"],
        "embedded.memory_ratio": held["memory_ratio"],
        "embedded.watch_fanout_events_per_s": measured(__name__, "fanout"),
    }
