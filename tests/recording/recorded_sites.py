"""A small operator that is recorded on its own, with runs that do something of everything."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from attrs import frozen

from reconcile import Context, Controller, Intent, Manager, Object, ObjectMeta, Result, field, resource
from reconcile.kinds import ConfigMap, Secret
from reconcile.recording import read_recording
from reconcile.recording.recording_reader import Recording
from reconcile.testing import FakeClient, simulate

PASSWORD = "correct horse battery staple"
TOKEN = "sk-live-0123456789abcdef"


@frozen
class SiteSpec:
    text: str = ""
    token: str = field(default="", secret=True)


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()


async def keep_site(ctx: Context[Site]) -> Result | None:
    name, text = ctx.object.name, ctx.object.spec.text
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(name), data={"text": text}))
    if text == "fail":
        raise RuntimeError("told to fail")
    return Result(requeue_after=60) if text == "again" else None


def sites(reconcile: Any = keep_site, **options: Any) -> Controller[Site]:
    return Controller(Site, reconcile, owns=[ConfigMap], writes=[Secret], **options)


def site(name: str = "web", text: str = "hello", token: str = "") -> Site:
    return Site(metadata=ObjectMeta(name, "default"), spec=SiteSpec(text, token))


Act = Callable[[FakeClient], Awaitable[None]]


async def nothing(client: FakeClient) -> None:
    """Let the operator work alone."""


def recorded(
    path: Path,
    *objects: Object,
    controller: Controller[Any] | None = None,
    act: Act = nothing,
    seconds: float = 5.0,
    **options: Any,
) -> Recording:
    """The recording of a manager that met these objects, and what `act` did, for some virtual seconds."""
    run = controller or sites()

    async def world() -> None:
        client = FakeClient(run, *objects)
        manager = Manager(
            run, transport=client.transport, clock=client.clock, record=path, environ={}, **options
        )
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            await anyio.sleep(1)
            await act(client)
            await anyio.sleep(seconds)
            manager.stop()

    simulate(world)
    return read_recording(path)
