"""The programs whose cost is measured, on this runtime: each run reads its object, and writes one byte."""

import os
from collections.abc import Mapping

from attrs import field, frozen

from reconcile import Context, Controller, Manager, Object, resource
from reconcile.kinds import Pod


@frozen
class SiteSpec:
    image: str = ""
    replicas: int = 1
    settings: Mapping[str, str] = field(factory=dict)


@frozen
class SiteStatus:
    ready: int = 0


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


RUNS = os.open(os.environ["RUNS"], os.O_WRONLY)


async def keep_site(ctx: Context[Site]) -> None:
    assert ctx.object.spec.image
    os.write(RUNS, b".")


async def keep_pod(ctx: Context[Pod]) -> None:
    assert ctx.object.spec.containers
    os.write(RUNS, b".")


sites = Manager(Controller(Site, keep_site))
pods = Manager(Controller(Pod, keep_pod))
