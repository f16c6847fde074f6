"""Servers to be killed. This process imports everything once, and forks a server for each line that it reads.

A line is JSON: the data folder, and the sizes at which segments end and are compacted. The server prints
its process and its URL.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

from reconcile.embedded import ApiServer
from reconcile.embedded.durable import compaction, segments
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.http import serve


async def run(asked: dict[str, Any]) -> None:
    with DataFolder(Path(asked["folder"])) as folder:
        server = ApiServer(data=folder)
        async with serve(server, tls=False) as face, anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            # In one write: it may be killed between two, and the next server goes on in the same line.
            os.write(
                sys.stdout.fileno(), json.dumps({"process": os.getpid(), "url": face.url}).encode() + b"\n"
            )
            await anyio.sleep_forever()


def victim(asked: dict[str, Any]) -> None:
    for module, name in ((segments, "SEGMENT_BYTES"), (compaction, "KEPT_BYTES"), (compaction, "_WASTE")):
        setattr(module, name, asked[name])
    anyio.run(run, asked)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped at once
    for line in sys.stdin:
        if os.fork() == 0:
            victim(json.loads(line))
            os._exit(0)


if __name__ == "__main__":
    main()
