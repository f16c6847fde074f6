"""What an empty manager costs in a pod: CPU until it is ready, and the memory it has then.

It finds its server and its credentials as a pod does, over TLS. `ready_ms` is CPU time of the process from
its first instruction on: the interpreter, imports, the first list and the first watch. Another program on the
machine only adds to it, so the best of several starts counts; the first compiles the modules.

As in an image of the runtime alone, what only extras and this project's own targets install is not there:
some libraries import others wherever they find them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from tests.bench._harness import Figures

STARTS = 6
PROGRAM = """
import runpy, sys
sys.modules.update(dict.fromkeys(%r))  # a module that is None raises ModuleNotFoundError
runpy.run_module("tests.bench._empty_manager", run_name="__main__", alter_sys=True)
"""
SERVED = {"serve": "127.0.0.1:0"}


@frozen
class Started:
    """One start: CPU in milliseconds, memory in MB (10^6 bytes), and the modules imported."""

    cpu_ms: float
    resident_mb: float
    modules: frozenset[str]


def only_in_extras() -> list[str]:
    """The importable packages here that an installation of the runtime without extras lacks."""
    needed, waiting = set[str](), ["reconcile-runtime"]
    while waiting:
        distribution = _normal(waiting.pop())
        if distribution not in needed:
            needed.add(distribution)
            waiting += [_name(line) for line in requires(distribution) or () if _applies(line)]
    found = packages_distributions().items()
    return sorted(name for name, homes in found if not needed.intersection(map(_normal, homes)))


def _normal(distribution: str) -> str:
    return re.sub("[-_.]+", "-", distribution).lower()


def _name(requirement: str) -> str:
    return re.split("[^A-Za-z0-9._-]", requirement)[0]


def _applies(requirement: str) -> bool:
    """Whether it is required here; what a condition about the platform excludes is not installed either."""
    condition = requirement.partition(";")[2]
    return "extra ==" not in condition and _normal(_name(requirement)) in _installed()


@cache
def _installed() -> frozenset[str]:
    return frozenset(_normal(home) for homes in packages_distributions().values() for home in homes)


def start(account: Path, url: str, options: Mapping[str, Any], compiled: str) -> Started:
    """Start a manager in a process of its own, as a pod of the server at `url` with that account."""
    server = urlsplit(url)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RECONCILE_")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ["PYTHONPYCACHEPREFIX"] = compiled
    environ["KUBERNETES_SERVICE_HOST"] = str(server.hostname)
    environ["KUBERNETES_SERVICE_PORT"] = str(server.port)
    program = (sys.executable, "-c", PROGRAM % only_in_extras(), str(account), json.dumps(options))
    done = subprocess.run(program, env=environ, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    cpu, memory, modules = json.loads(done.stdout.splitlines()[-1])
    return Started(cpu * 1e3, memory / 1e6, frozenset(modules))


def figures(account: Path, url: str) -> Figures:
    """Of the best start: without pages, and with pages and metrics, as an operator has them."""
    with tempfile.TemporaryDirectory() as compiled:
        plain = [start(account, url, {}, compiled) for _ in range(STARTS)]
        served = [start(account, url, SERVED, compiled) for _ in range(STARTS)]
    return {
        "runtime.base_mb": min(one.resident_mb for one in plain),
        "runtime.ready_ms": min(one.cpu_ms for one in plain),
        "runtime.base_served_mb": min(one.resident_mb for one in served),
        "runtime.ready_served_ms": min(one.cpu_ms for one in served),
    }
