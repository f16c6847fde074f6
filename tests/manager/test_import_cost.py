"""What importing the names of `reconcile` costs whoever only declares controllers."""

import json
import subprocess
import sys
from typing import Any

OURS = """
import json, pathlib, re, sys, time
from reconcile import *
heavy = ("prometheus_client", "aiohttp", "kubernetes_asyncio", "click", "trustme", "cryptography",
         "hypothesis", "pytest", "opentelemetry")
status = pathlib.Path("/proc/self/status")  # getrusage would say what the parent's peak was
peak = int(re.search("VmHWM:\\s+(\\d+)", status.read_text())[1]) / 1024 if status.exists() else 0
print(json.dumps([time.process_time(), peak, [m for m in heavy if m in sys.modules]]))
"""
DEPENDENCIES = """
import time
import anyio, attrs, msgspec, structlog
print(time.process_time())
"""


def test_importing_takes_less_than_three_times_what_the_dependencies_take_and_45_mb_and_no_extras() -> None:
    costs, theirs = [], []
    for _ in range(3):  # in turns: the first may compile modules, and any may meet a busy machine
        theirs.append(said_by(DEPENDENCIES))
        costs.append(said_by(OURS))
    seconds, megabytes, heavy = min(costs)
    assert seconds < 3 * min(theirs)
    assert megabytes < 45
    assert heavy == []


def said_by(code: str) -> Any:
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
