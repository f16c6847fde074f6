"""What `reconcile adopt kopf audit`, `switch` and `back` take for 20,000 objects, over HTTPS.

For the audit and the switch the objects are as an operator on kopf leaves them, with the copy of their spec,
2 KB each; for the way back as the operator that took them over leaves them. The server and the command have a
process each; the command is measured as a whole, with its start. The switch has a Deployment to stop whose
operator signs in a peering object, and whose pod ends 2 s after it was scaled to 0.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from informers.clock import SystemClock
from reconcile.embedded import ApiRequest, ApiServer, WatchStream
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.models import encode
from reconcile.predecessors import entry_of
from tests.adoption.kopf_objects import GROUP, managed, record
from tests.bench._harness import Figures
from tests.bench.adopted_gadgets import gadgets
from tests.clients.gadgets import deployment, gadget_definition
from tests.helpers.definitions import definition
from tests.helpers.pods import pod

OBJECTS = 20_000
HALF_CREATED = 20
PADDING = 600
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PEERINGS = "/apis/kopf.dev/v1/clusterkopfpeerings"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
PEER = "me@host/1"
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"


def gadget(number: int) -> dict[str, Any]:
    if number < HALF_CREATED:
        return managed(f"gadget-{number}", handled=False, padding=PADDING, make=record())
    obj = managed(f"gadget-{number}", padding=PADDING)
    copy = json.dumps({"spec": obj["spec"]})
    obj["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"] = copy
    return obj


def taken_over(number: int) -> dict[str, Any]:
    obj = managed(f"gadget-{number}", handled=False, finalizer=False, padding=PADDING)
    obj["metadata"] |= {"finalizers": [gadgets.finalizer], "annotations": {}, "managedFields": []}
    return obj


def filled(make: Callable[[int], dict[str, Any]]) -> ApiServer:
    server = ApiServer(clock=SystemClock())
    _post(server, DEFINITIONS, gadget_definition(GROUP))
    for number in range(OBJECTS):
        _post(server, GADGETS, make(number))
    return server


def _post(server: ApiServer, path: str, document: Mapping[str, Any]) -> None:
    _send(server, "POST", path, document)


def _send(server: ApiServer, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"content-type": kind, "user-agent": "kopf/1.45"}
    content = b"" if body is None else json.dumps(body).encode()
    answer = server.handle(ApiRequest(method, path, {}, headers, content))
    assert not isinstance(answer, WatchStream)
    assert answer.status < 300, answer.body
    return json.loads(answer.body)


def handled(number: int) -> dict[str, Any]:
    return gadget(HALF_CREATED + number)


def _serve(kubeconfig: str, ready: Any, make: Callable[[int], dict[str, Any]]) -> None:
    async def run() -> None:
        server = filled(make)
        async with serve(server, token="bench") as face:
            write_kubeconfig(Path(kubeconfig), face.url, face.ca_pem, "bench")
            if make is handled:
                deploy(server)
            ready.set()
            if make is handled:
                await end_when_scaled(server)
            await anyio.sleep_forever()

    anyio.run(run)


def deploy(server: ApiServer) -> None:
    """An operator on kopf: its peering object, where it signs, its Deployment and its pod."""
    peerings = definition("ClusterKopfPeering", group="kopf.dev", subresources={})
    peerings["spec"]["scope"] = "Cluster"
    _post(server, DEFINITIONS, peerings)
    entry = dict(entry_of(0, 3600, SystemClock().now()))
    head = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}}
    _post(server, PEERINGS, {**head, "status": {PEER: entry}})
    _post(server, DEPLOYMENTS, deployment("operator", "operator:1"))
    _post(server, PODS, encode(pod("operator", labels={"a": "operator"})))


async def end_when_scaled(server: ApiServer) -> None:
    """The process of the operator ends, and signs off, when its Deployment is scaled to 0."""
    while _send(server, "GET", f"{DEPLOYMENTS}/operator")["spec"]["replicas"]:
        await anyio.sleep(0.5)
    await anyio.sleep(2)
    _send(server, "DELETE", f"{PODS}/operator", {"gracePeriodSeconds": 0})
    _send(server, "PATCH", f"{PEERINGS}/default", {"status": {PEER: None}})


def audited(kubeconfig: str) -> Figures:
    figures, status, output = _measured("audit", kubeconfig, "--json")
    found = json.loads(output)
    assert status == 1
    (kind,) = found["kinds"]
    assert (kind["objects"], kind["halfCreated"]["count"]) == (OBJECTS, HALF_CREATED)
    return figures


def switched(kubeconfig: str) -> Figures:
    options = ("--kind", f"gadgets.{GROUP}", "--deployment", "operator", "--drain", "1", "--yes")
    figures, status, output = _measured("switch", kubeconfig, *options)
    assert status == 0
    assert "freezing the peers" in output
    assert "the operator on kopf has stopped" in output
    return figures


def handed_back(kubeconfig: str) -> Figures:
    figures, status, output = _measured("back", kubeconfig, "tests.bench.adopted_gadgets", "--yes")
    assert status == 0
    assert f"{OBJECTS:,} handed back" in output
    return figures


def _measured(step: str, kubeconfig: str, *arguments: str) -> tuple[Figures, int, str]:
    """One command: seconds by the clock and of the processor, and MiB of memory at most; and how it ended."""
    command = [sys.executable, "-m", "reconcile", "adopt", "kopf", step, *arguments]
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*command, "--kubeconfig", kubeconfig], stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    figures = {
        f"adoption.{step}_s": seconds,
        f"adoption.{step}_cpu_s": usage.ru_utime + usage.ru_stime,
        f"adoption.{step}_mib": usage.ru_maxrss / 1024,
    }
    return figures, process.returncode, text


def figures() -> Figures:
    return {
        **_served(gadget, audited),
        **_served(handled, switched),
        **_served(taken_over, handed_back),
    }


def _served(make: Callable[[int], dict[str, Any]], measure: Callable[[str], Figures]) -> Figures:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = f"{folder}/kubeconfig"
        server = context.Process(target=_serve, args=(kubeconfig, ready, make), daemon=True)
        server.start()
        try:
            assert ready.wait(600)
            return measure(kubeconfig)
        finally:
            server.terminate()
            server.join()
