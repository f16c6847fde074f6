"""What `reconcile adopt kopf audit` takes for 20,000 objects, over HTTPS.

The objects are as an operator on kopf leaves them, with the copy of their spec, 2 KB each. The server and the
command have a process each; the command is measured as a whole, with its start.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from informers.clock import SystemClock
from reconcile.embedded import ApiRequest, ApiServer, WatchStream
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from tests.adoption.kopf_objects import GROUP, managed, record
from tests.bench._harness import Figures
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


def filled() -> ApiServer:
    server = ApiServer(clock=SystemClock())
    _post(server, DEFINITIONS, gadget_definition(GROUP))
    for number in range(OBJECTS):
        _post(server, GADGETS, gadget(number))
    return server


def _post(server: ApiServer, path: str, document: dict[str, Any]) -> None:
    headers = {"content-type": "application/json", "user-agent": "kopf/1.45"}
    answer = server.handle(ApiRequest("POST", path, {}, headers, json.dumps(document).encode()))
    assert not isinstance(answer, WatchStream)
    assert answer.status == 201, answer.body


def _serve(kubeconfig: str, ready: Any) -> None:
    async def run() -> None:
        async with serve(filled(), token="bench") as face:
            write_kubeconfig(Path(kubeconfig), face.url, face.ca_pem, "bench")
            ready.set()
            await anyio.sleep_forever()

    anyio.run(run)


def audited(kubeconfig: str) -> Figures:
    """One audit: seconds by the clock and of the processor, and MiB of memory at most."""
    command = [sys.executable, "-m", "reconcile", "adopt", "kopf", "audit", "--json"]
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*command, "--kubeconfig", kubeconfig], stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        found = json.load(output)
    assert process.returncode == 1
    (kind,) = found["kinds"]
    assert (kind["objects"], kind["halfCreated"]["count"]) == (OBJECTS, HALF_CREATED)
    return {
        "adoption.audit_s": seconds,
        "adoption.audit_cpu_s": usage.ru_utime + usage.ru_stime,
        "adoption.audit_mib": usage.ru_maxrss / 1024,
    }


def figures() -> Figures:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = f"{folder}/kubeconfig"
        server = context.Process(target=_serve, args=(kubeconfig, ready), daemon=True)
        server.start()
        try:
            assert ready.wait(600)
            return audited(kubeconfig)
        finally:
            server.terminate()
            server.join()
