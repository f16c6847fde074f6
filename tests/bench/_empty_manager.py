"""The program whose start is measured: a manager in a pod, with one controller and no objects.

Its arguments are the folder of the pod's account and the manager's options as JSON. Prints, once the manager
is ready: CPU seconds since the process began, resident bytes, and the modules it imported.
"""

import json
import sys
import time
from pathlib import Path

import anyio

from informers.kubernetes import KubernetesTransport
from informers.service_account import load_in_cluster
from reconcile import Context, Controller, Manager, Object, resource
from tests.bench._memory import resident


@resource("example.com/v1")
class Site(Object):
    pass


async def reconcile(ctx: Context[Site]) -> None:
    pass


async def main() -> None:
    transport = KubernetesTransport(*load_in_cluster(Path(sys.argv[1])))
    async with Manager(Controller(Site, reconcile), transport=transport, **json.loads(sys.argv[2])):
        print(json.dumps([time.process_time(), resident(), sorted(sys.modules)]), flush=True)
    await transport.aclose()


if __name__ == "__main__":
    anyio.run(main)
