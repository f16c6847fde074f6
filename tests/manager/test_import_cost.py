"""What importing the names of `reconcile` costs a program that only declares controllers."""

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
