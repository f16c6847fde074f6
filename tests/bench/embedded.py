"""What the embedded API server costs: its start, creates, lists, watches, validation, memory.

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
from typing import Any

import aiohttp
import msgspec
import yaml

from informers.clock import SystemClock
from reconcile.embedded import ApiRequest, ApiServer, WatchStream
from reconcile.embedded.http import serve
from reconcile.embedded.schema import compile_schema

Figures = dict[str, float]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/bench.example.com/v1/namespaces/default/gadgets"
JSON = {"content-type": "application/json", "user-agent": "bench/1"}
CREATES = 4_000
OBJECTS = 20_000
CLIENTS = 8
WATCHERS = 10
EVENTS = 2_000
VALIDATIONS = 300

# --- objects --------------------------------------------------------------------------------------

STRING = {"type": "string"}
AMOUNTS = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
GADGET = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["image"],
            "properties": {
                "image": {**STRING, "minLength": 1},
                "replicas": {"type": "integer", "minimum": 0, "default": 1},
                "mode": {**STRING, "enum": ["auto", "off"], "default": "auto"},
                "env": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": STRING, "value": STRING},
                    },
                },
                "ports": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                            "protocol": {**STRING, "default": "TCP"},
                            "name": STRING,
                        },
                    },
                },
                "resources": {"type": "object", "properties": {"limits": AMOUNTS, "requests": AMOUNTS}},
                "settings": {"type": "object", "additionalProperties": STRING},
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.bench.example.com"},
    "spec": {
        "group": "bench.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": GADGET},
                "subresources": {"status": {}},
            }
        ],
    },
}


def gadget(number: int) -> bytes:
    """A custom resource of 2 KB."""
    spec = {
        "image": f"registry.example.com/gadgets/app:{number}",
        "replicas": number % 9,
        "env": [{"name": f"VARIABLE_{k}", "value": f"{number}-{'v' * 40}-{k}"} for k in range(8)],
        "ports": [{"port": 8000 + k, "name": f"port-{k}"} for k in range(3)],
        "resources": {
            "limits": {"cpu": 2, "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "512Mi"},
        },
        "settings": {f"setting-{k}": f"{number}-{'s' * 50}" for k in range(9)},
    }
    metadata = {
        "name": f"gadget-{number}",
        "labels": {"app": "bench", "part": str(number % 10)},
        "annotations": {"example.com/note": "n" * 60},
    }
    body = {"apiVersion": "bench.example.com/v1", "kind": "Gadget", "metadata": metadata, "spec": spec}
    return msgspec.json.encode(body)


def ray_cluster() -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema of the shape of a RayCluster's, and an object of 5 KB that it describes."""
    named = {"type": "object", "required": ["name"], "properties": {"name": STRING, "value": STRING}}
    port = {
        "type": "object",
        "properties": {"containerPort": {"type": "integer", "format": "int32"}, "name": STRING},
    }
    container = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": STRING,
            "image": STRING,
            "args": {"type": "array", "items": STRING},
            "env": {"type": "array", "items": named},
            "ports": {"type": "array", "items": port},
            "resources": {"type": "object", "properties": {"limits": AMOUNTS, "requests": AMOUNTS}},
        },
    }
    containers = {"type": "array", "items": container}
    pod = {"type": "object", "required": ["containers"], "properties": {"containers": containers}}
    template = {"type": "object", "properties": {"spec": pod}}
    params = {"type": "object", "additionalProperties": STRING}
    count = {"type": "integer", "format": "int32", "minimum": 0, "default": 0}
    group = {
        "type": "object",
        "required": ["groupName", "rayStartParams", "template"],
        "properties": {
            "groupName": STRING,
            "minReplicas": count,
            "maxReplicas": count,
            "replicas": count,
            "rayStartParams": params,
            "template": template,
        },
    }
    head = {
        "type": "object",
        "required": ["template"],
        "properties": {"rayStartParams": params, "template": template},
    }
    groups = {"type": "array", "items": group}
    spec = {"type": "object", "properties": {"headGroupSpec": head, "workerGroupSpecs": groups}}
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
        for k in range(4)
    ]
    schema = {"type": "object", "properties": {"spec": spec}}
    return schema, {"spec": {"headGroupSpec": part, "workerGroupSpecs": workers}}


# --- what runs in a process of its own ------------------------------------------------------------


def make_server() -> ApiServer:
    """A server with the definition of gadgets."""
    server = ApiServer(clock=SystemClock())
    made = server.handle(ApiRequest("POST", DEFINITIONS, {}, JSON, msgspec.json.encode(DEFINITION)))
    assert not isinstance(made, WatchStream)
    assert made.status == 201, made.body
    return server


def fill(server: ApiServer, count: int) -> int:
    """Create gadgets; the bytes of JSON that the server then holds of them."""
    size = 0
    for number in range(count):
        answer = server.handle(ApiRequest("POST", GADGETS, {}, JSON, gadget(number)))
        assert not isinstance(answer, WatchStream)
        assert answer.status == 201, answer.body
        size += len(answer.body)
    return size


def inprocess() -> Figures:
    """Creates by CPU time, as a test on a machine of its own would see them."""
    server, bodies = make_server(), [gadget(number) for number in range(CREATES)]
    requests = [ApiRequest("POST", GADGETS, {}, JSON, body) for body in bodies]
    gc.collect()
    before = time.process_time()
    for request in requests:
        answer = server.handle(request)
    cpu = time.process_time() - before
    assert not isinstance(answer, WatchStream)
    assert answer.status == 201, answer.body
    return {"creates_per_s": CREATES / cpu}


def validating() -> Figures:
    """Pruning, defaulting and validating one RayCluster."""
    openapi, obj = ray_cluster()
    schema = compile_schema(openapi)
    size = len(msgspec.json.encode(obj))
    assert 4_500 < size < 6_000, size
    copies = [msgspec.json.decode(msgspec.json.encode(obj)) for _ in range(VALIDATIONS)]
    assert schema.prune(copies[0]) == []
    before = time.process_time()
    for copy in copies:
        schema.prune(copy)
        schema.default(copy)
        assert schema.validate(copy) == []
    return {"us": (time.process_time() - before) / VALIDATIONS * 1e6}


def holding() -> Figures:
    """Memory by what is held, and the time of a whole list."""
    server = make_server()
    gc.collect()
    before = resident()
    size = fill(server, OBJECTS)
    gc.collect()
    ratio = (resident() - before) / size
    started = time.process_time()
    answer = server.handle(ApiRequest("GET", GADGETS))
    elapsed = time.process_time() - started
    assert not isinstance(answer, WatchStream)
    assert len(answer.body) > size * 0.9
    return {"memory_ratio": ratio, "list_ms": elapsed * 1e3}


def resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


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


# --- over HTTP ------------------------------------------------------------------------------------


async def burst(server: ApiServer, count: int) -> None:
    """Create gadgets within the server, letting it deliver in between."""
    for number in range(count):
        server.handle(ApiRequest("POST", GADGETS, {}, JSON, gadget(number)))
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
    """A client of that server."""
    context = ssl.create_default_context(cadata=ca.decode())
    connector = aiohttp.TCPConnector(ssl=context, limit=CLIENTS + WATCHERS)
    headers = {**JSON, "authorization": "Bearer bench"}
    async with aiohttp.ClientSession(url, connector=connector, headers=headers) as client:
        yield client


async def create_all(client: aiohttp.ClientSession, bodies: Iterator[bytes]) -> None:
    """Create what is left, one after the other."""
    for body in bodies:
        async with client.post(GADGETS, data=body) as response:
            await response.read()
            assert response.status == 201


async def _http(url: str, ca: bytes) -> Figures:
    bodies = [gadget(number) for number in range(CREATES)]
    async with session(url, ca) as client:
        rest = iter(bodies)
        await create_all(client, islice(rest, 200))
        before = time.perf_counter()
        await asyncio.gather(*(create_all(client, rest) for _ in range(CLIENTS)))
        return {"creates_per_s": (CREATES - 200) / (time.perf_counter() - before)}


def http() -> Figures:
    """Creates over HTTPS, by wall time, with several clients at once."""
    with served() as (_, url, ca):
        return asyncio.run(_http(url, ca))


async def _watch(client: aiohttp.ClientSession, ready: asyncio.Event, lines: int) -> None:
    async with client.get(GADGETS, params={"watch": "1", "resourceVersion": "0"}) as response:
        ready.set()
        seen = 0
        async for chunk in response.content.iter_any():
            seen += chunk.count(b"\n")
            if seen >= lines:
                return


async def _fanout(connection: Any, url: str, ca: bytes) -> Figures:
    async with session(url, ca) as client:
        ready = [asyncio.Event() for _ in range(WATCHERS)]
        watches = [asyncio.create_task(_watch(client, event, EVENTS)) for event in ready]
        await asyncio.gather(*(event.wait() for event in ready))
        before = time.perf_counter()
        connection.send(EVENTS)
        await asyncio.gather(*watches)
        return {"events_per_s": EVENTS * WATCHERS / (time.perf_counter() - before)}


def fanout() -> Figures:
    """Events delivered over HTTPS to watchers that were there before, creates included, by wall time."""
    with served() as (connection, url, ca):
        return asyncio.run(_fanout(connection, url, ca))


MEASUREMENTS = {
    "inprocess": inprocess,
    "validating": validating,
    "holding": holding,
    "starting": starting,
    "http": http,
    "fanout": fanout,
}


def measured(name: str) -> Figures:
    """One measurement in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.embedded", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: Figures = msgspec.json.decode(done.stdout)
    return result


def figures() -> Figures:
    """All figures of the embedded server."""
    held, start = measured("holding"), measured("starting")
    return {
        "embedded.import_ms": start["import_ms"],
        "embedded.start_ms": start["ms"],
        "embedded.process_start_ms": start["process_ms"],
        "embedded.creates_per_s_inprocess": measured("inprocess")["creates_per_s"],
        "embedded.creates_per_s_http": measured("http")["creates_per_s"],
        "embedded.validate_us": measured("validating")["us"],
        "embedded.list_20k_ms": held["list_ms"],
        "embedded.memory_ratio": held["memory_ratio"],
        "embedded.watch_fanout_events_per_s": measured("fanout")["events_per_s"],
    }


if __name__ == "__main__":
    print(msgspec.json.encode(MEASUREMENTS[sys.argv[1]]()).decode())
