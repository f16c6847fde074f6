"""What a program imports that only declares controllers, and one whose manager runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

IMPORT = """
import time
import anyio, attrs, msgspec, structlog
theirs = time.process_time()
import json, pathlib, re, sys
from reconcile import *
all = time.process_time()
heavy = ("prometheus_client", "aiohttp", "kubernetes_asyncio", "click", "trustme", "cryptography",
         "hypothesis", "pytest", "opentelemetry")
status = pathlib.Path("/proc/self/status")  # getrusage would say what the parent's peak was
peak = int(re.search("VmHWM:\\s+(\\d+)", status.read_text())[1]) / 1024 if status.exists() else 0
print(json.dumps([all / theirs, peak, [m for m in heavy if m in sys.modules]]))
"""


def test_importing_takes_less_than_three_times_what_the_dependencies_take_and_45_mb_and_no_extras(
    tmp_path: Path,
) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    costs = []
    for _ in range(5):  # the first compiles all modules, and any may meet a busy machine
        done = subprocess.run((sys.executable, "-c", IMPORT), env=env, capture_output=True, check=True)
        costs.append(json.loads(done.stdout))
    ratios, megabytes, heavy = zip(*costs, strict=True)
    assert min(ratios) < 3
    assert min(megabytes) < 45  # of one that did not compile: the compiler's peak is not the program's
    assert all(one == [] for one in heavy)


RUNNING = """
import json, sys
from contextlib import asynccontextmanager
import anyio
import informers.kubernetes
from informers import StreamingResponse
from reconcile import Controller, Manager, Object, resource

class Empty:
    server = "empty"

    @asynccontextmanager
    async def stream(self, request):
        yield StreamingResponse(200, {}, self.lines())

    async def lines(self):
        metadata = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\\n"
        await anyio.sleep_forever()

    async def aclose(self):
        pass

@resource("example.com/v1")
class Site(Object):
    pass

async def reconcile(ctx):
    pass

async def main():
    async with Manager(Controller(Site, reconcile), transport=Empty(), environ={}):
        print(json.dumps(sorted(sys.modules)))

anyio.run(main)
"""

LEFT_OUT = (
    "aiohttp",
    "_sysconfigdata",
    "difflib",
    "informers.codecs",
    "informers.informer_status",
    "kubernetes_asyncio",
    "reconcile.blocks",
    "reconcile.client.kopf_peerings",
    "reconcile.controller.admission",
    "reconcile.controller.generated_values",
    "reconcile.controller.key_mapping",
    "reconcile.controller.kopf_takeover",
    "reconcile.controller.object_background",
    "reconcile.controller.sources",
    "reconcile.controller.synchronous",
    "reconcile.controller.write_details",
    "reconcile.embedded",
    "reconcile.kinds",
    "reconcile.manager.leadership",
    "reconcile.manager.loop_threads",
    "reconcile.manager.predecessor_",
    "reconcile.manager.shadow",
    "reconcile.manager.webhook_server",
    "reconcile.models.definition",
    "reconcile.models.docs",
    "reconcile.models.schemas",
    "reconcile.ops.debug_",
    "reconcile.ops.manager_status",
    "reconcile.ops.metric",
    "reconcile.ops.page_",
    "reconcile.predecessors.kopf_p",
    "reconcile.predecessors.kopf_traces",
    "reconcile.recording",
    "reconcile.sharding",
    "reconcile.status",
    "reconcile.storms.determinism",
    "reconcile.testing",
    "reconcile.webhooks.calling_objects",
    "reconcile.webhooks.handler",
    "reconcile.webhooks.object_conversion",
    "reconcile.webhooks.routes",
    "yaml",
)


def test_a_manager_imports_only_what_its_options_and_controllers_use() -> None:
    done = subprocess.run((sys.executable, "-c", RUNNING), capture_output=True, check=True, text=True)
    imported = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in imported if name.startswith(LEFT_OUT)] == []
