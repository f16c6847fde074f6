"""Whether the desired state of a controller depends on the state of the cluster alone."""

import datetime
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from informers import APIResource, Key, Response
from informers.apimachinery.server_fields import SET_BY_SERVER
from informers.transport import HttpRequest, PassingTransport
from reconcile.client.client import Client
from reconcile.client.diff import value_differences
from reconcile.controller.declaration import Controller
from reconcile.embedded import InProcessTransport
from reconcile.models import Object, kind_of
from reconcile.runs.run_request import Request
from reconcile.storms.determinism import (
    NondeterministicRun,
    Rendering,
    rendering_differences,
    without_server_set,
)
from reconcile.testing.fake_client import FakeClient
from reconcile.testing.single_run import executor_of, request_of
from reconcile.testing.virtual_clock import START, VirtualClock

HASH_SEEDS = ("1", "2")
LATER = datetime.timedelta(seconds=11, milliseconds=7)
"""Another second of the same minute, so that what is due in one run is due in both."""
_SKEW = datetime.timedelta(seconds=3)
"""How far the server's clock is ahead of the controller's, so that no time of creation equals its `now`."""
_CHILD = "import runpy; runpy.run_module('reconcile.testing.determinism_check', run_name='__main__')"


async def assert_deterministic(
    controller: Controller[Any],
    key: str | Key | Request | Object,
    client: FakeClient,
    *,
    later: datetime.timedelta = LATER,
) -> None:
    """Raise `NondeterministicRun` where the desired state of a key is not a function of what is there.

    It reconciles the key on two copies of the client's server, the second time `later`, with other random
    numbers, and with lists and mappings in another order. The default is 11 seconds later in the same minute
    (the first run is up to a minute after the client's clock), so that what a schedule makes due is due in
    both; `timedelta(days=1)` also finds a date. What the server chooses (uids, versions, generated names,
    times of creation) may differ.

    A controller that is a variable of a module also runs in two new interpreters, in which sets of strings
    have another order; that takes about a second. The error of a run is raised.
    """
    request = request_of(controller, key)
    client.serve(controller)
    start = _start(client.clock.now(), later)
    one = await _rendered(controller, request, client, start, reordered=False)
    other = await _rendered(controller, request, client, start + later, reordered=True)
    found = list(rendering_differences(*without_server_set(one, other)))
    place = _place_of(controller)
    if not found and place is not None:
        asked = await _question(controller, request, client, place)
        texts = await anyio.to_thread.run_sync(_in_new_interpreters, asked)
        found = list(_differing_texts(*texts))
    if found:
        raise NondeterministicRun(found)


def _start(now: datetime.datetime, later: datetime.timedelta) -> datetime.datetime:
    """Now, or the next full minute if `later` would leave this one: both runs are in the same minute."""
    if (now + later).replace(second=0, microsecond=0) == now.replace(second=0, microsecond=0):
        return now
    return now.replace(second=0, microsecond=0) + datetime.timedelta(minutes=1)


async def _rendered(
    controller: Controller[Any],
    request: Request,
    client: FakeClient,
    now: datetime.datetime,
    reordered: bool,
) -> Rendering:
    loop_seconds = VirtualClock().now() - START  # a virtual clock adds the time of its loop
    clock = VirtualClock(2 if reordered else 1, now - loop_seconds)
    ahead = VirtualClock(4 if reordered else 3, now - loop_seconds + _SKEW)
    transport: Any = InProcessTransport(client.server.copy(ahead), settle=True)
    if reordered:
        transport = _Reordered(transport)
    return await _run(controller, request, Client(transport, clock=clock))


async def _run(controller: Controller[Any], request: Request, client: Client) -> Rendering:
    executor, _ = executor_of(controller, client, rendering=True, undeclared="refuse")
    outcome = await executor.run(request)
    if outcome.error is not None:
        raise outcome.error
    assert outcome.record is not None
    return outcome.record.rendered or {}, outcome.record.writes


class _Reordered(PassingTransport):
    """Answers with mappings and lists of objects in another order, as a server may."""

    async def request(self, request: HttpRequest) -> Response:
        answer = await self._inner.request(request)
        if request.method != "GET" or answer.status >= 400:
            return answer
        answered = _reordered(msgspec.json.decode(answer.body))
        if isinstance(answered.get("items"), list):
            answered["items"] = answered["items"][::-1]
        return Response(answer.status, answer.headers, msgspec.json.encode(answered))


def _reordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _reordered(value[name]) for name in reversed(list(value))}
    return [_reordered(one) for one in value] if isinstance(value, list) else value


# --- in another process, where sets of strings have another order -------------------------------------------


def _place_of(controller: Controller[Any]) -> tuple[str, str, str] | None:
    """Module, file and name of a controller that is a variable in the module of its reconciler."""
    module = sys.modules.get(getattr(controller.reconcile, "__module__", ""))
    file = getattr(module, "__file__", None)
    for name, value in vars(module).items() if module is not None else ():
        if value is controller and file is not None:
            return module.__name__ if module is not None else "", file, name
    return None


async def _question(
    controller: Controller[Any], request: Request, client: FakeClient, place: tuple[str, str, str]
) -> bytes:
    objects = []
    for kind in controller.kinds:
        resource: APIResource = kind_of(kind).resource
        objects += [one.to_dict() for one in await client.raw.snapshots(resource, live=True)]
    return json.dumps({"place": place, "request": list(request), "objects": objects}).encode()


def _in_new_interpreters(question: bytes) -> Sequence[Mapping[str, Any]]:
    path = [entry for entry in sys.path if entry] or [str(Path.cwd())]
    processes = [
        subprocess.Popen(
            (sys.executable, "-c", _CHILD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path)},
        )
        for seed in HASH_SEEDS
    ]
    return [_answer(process, question) for process in processes]


def _answer(process: "subprocess.Popen[bytes]", question: bytes) -> Mapping[str, Any]:
    output, complaint = process.communicate(question)
    if process.returncode:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeError(f"the controller cannot run in a new interpreter: {last}")
    answer: Mapping[str, Any] = json.loads(output.splitlines()[-1])
    return answer


def _differing_texts(one: Mapping[str, Any], other: Mapping[str, Any]) -> Sequence[str]:
    return [
        f"{name}: {path or 'all of it'}"
        for name in {**one, **other}
        for path, _, _ in value_differences(one.get(name), other.get(name))
    ]


def _main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    controller = _controller(*asked["place"])
    client = FakeClient()
    client.serve(*controller.kinds)
    for obj in asked["objects"]:
        client.add(_new(obj))
    client.serve(controller)  # after the objects, which it has admitted before

    async def ask() -> Rendering:
        return await _run(controller, Request(*asked["request"]), client)

    rendered, _ = anyio.run(ask)
    answer = {f"{place[0].kind} {place[1]}": body for place, body in rendered.items()}
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")


def _new(obj: dict[str, Any]) -> dict[str, Any]:
    server_set = (*SET_BY_SERVER, "ownerReferences")
    return {**obj, "metadata": {name: v for name, v in obj["metadata"].items() if name not in server_set}}


def _controller(module: str, file: str, name: str) -> Controller[Any]:
    try:
        found = importlib.import_module(module)
    except ImportError:
        spec = importlib.util.spec_from_file_location(module, file)
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[module] = found
        spec.loader.exec_module(found)
    controller = getattr(found, name)
    assert isinstance(controller, Controller)
    return controller


if __name__ == "__main__":
    _main()
