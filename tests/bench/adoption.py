"""What `reconcile adopt kopf audit` and `back` take for 20,000 objects, over HTTPS.

For the audit the objects are as an operator on kopf leaves them, with the copy of their spec, 2 KB each; for
the way back as the operator that took them over leaves them. The server and the command have a process each;
the command is measured as a whole, with its start.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from informers.clock import SystemClock
from reconcile.embedded import ApiRequest, ApiServer, WatchStream
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from tests.adoption.kopf_objects import GROUP, managed, record
from tests.bench._harness import Figures
from tests.bench.adopted_gadgets import gadgets
from tests.clients.gadgets import gadget_definition

OBJECTS = 20_000
HALF_CREATED = 20
PADDING = 600
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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


def _post(server: ApiServer, path: str, document: dict[str, Any]) -> None:
    headers = {"content-type": "application/json", "user-agent": "kopf/1.45"}
    answer = server.handle(ApiRequest("POST", path, {}, headers, json.dumps(document).encode()))
    assert not isinstance(answer, WatchStream)
    assert answer.status == 201, answer.body


def _serve(kubeconfig: str, ready: Any, make: Callable[[int], dict[str, Any]]) -> None:
    async def run() -> None:
        async with serve(filled(make), token="bench") as face:
            write_kubeconfig(Path(kubeconfig), face.url, face.ca_pem, "bench")
            ready.set()
            await anyio.sleep_forever()

    anyio.run(run)


def audited(kubeconfig: str) -> Figures:
    figures, status, output = _measured("audit", kubeconfig, "--json")
    found = json.loads(output)
    assert status == 1
    (kind,) = found["kinds"]
    assert (kind["objects"], kind["halfCreated"]["count"]) == (OBJECTS, HALF_CREATED)
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
    return {**_served(gadget, audited), **_served(taken_over, handed_back)}


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
