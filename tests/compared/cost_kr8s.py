"""The programs whose cost is measured, on kr8s: a watch, each of whose events writes one byte."""

import asyncio
import os

import kr8s.asyncio
from kr8s.asyncio.objects import Pod, new_class

RUNS = os.open(os.environ["RUNS"], os.O_WRONLY)
Site = new_class("Site", "example.com/v1", namespaced=True)


async def main() -> None:
    api = await kr8s.asyncio.api()
    kind = Pod if os.environ["KIND"] == "pods" else Site
    while True:  # a watch that the server ends is the end of the loop within
        async for _, found in api.watch(kind, namespace=kr8s.ALL):
            assert found.spec
            os.write(RUNS, b".")


asyncio.run(main())
