"""What the benches share: a measurement in a process of its own, the best of several rounds."""

import asyncio
import importlib
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.bench._memory import resident as resident

Figures = dict[str, float]


def measured(module: str, function: str, *arguments: str) -> Any:
    """What a function of a module gives in a new process, where no other has left memory or caches.

    The function may be async. Raises CalledProcessError where it fails.
    """
    command = [sys.executable, "-m", __name__, module, function, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def best_us(call: Callable[[], Any], times: int = 1, *, rounds: int = 3) -> float:
    """Microseconds of CPU time for one of `times` calls, in the best round: other programs only add to it."""

    def once() -> float:
        before = time.process_time()
        for _ in range(times):
            call()
        return time.process_time() - before

    return min(once() for _ in range(rounds)) / times * 1e6


if __name__ == "__main__":
    module, function, *arguments = sys.argv[1:]
    taken = getattr(importlib.import_module(module), function)(*arguments)
    print(json.dumps(asyncio.run(taken) if inspect.iscoroutine(taken) else taken))
