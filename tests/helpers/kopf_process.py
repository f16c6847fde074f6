"""Runs operators on kopf in a process of their own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconcile.testing import ListeningServer

TESTS = Path(__file__).parents[1]
FOLDERS = (TESTS / "compared", TESTS / "adoption")
NOTEBOOK = TESTS.parent / "docs" / "examples" / "notebook"


@contextmanager
def kopf(
    server: ListeningServer, log: Path, operator: str, *where: str, peering: str = "", **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """An operator of tests/compared or tests/adoption on kopf, killed at the end.

    `where` are flags of kopf that name its namespaces (default: all), `variables` of its environment; what
    is in the folder `PYTHONPATH` comes before what is installed. It signs in the peering object `peering`;
    empty: in none.
    """
    path = filter(None, (variables.get("PYTHONPATH"), *map(str, FOLDERS), str(NOTEBOOK)))
    environment = {
        **os.environ,
        **variables,
        "KUBECONFIG": str(server.kubeconfig),
        "PYTHONPATH": os.pathsep.join(path),
    }
    namespaces = where or ("--all-namespaces",)
    mode = (f"--peering={peering}",) if peering else ("--standalone",)
    command = [sys.executable, "-m", "kopf", "run", *mode, *namespaces, "-m", operator]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
