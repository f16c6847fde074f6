"""Incidents that take no time, or no end."""

from collections.abc import Iterable

import anyio

from reconcile import Client
from reconcile.commands.incident_play import AT_ONCE
from reconcile.kinds import Namespace, Pod
from reconcile.simulation import Incident, IncidentStage, IncidentVerdict, Logic

SEEN: list[str] = []
"""What the incidents were played on, in order: namespace, logic, servers."""


async def play_quickly(stage: IncidentStage, logic: Logic) -> IncidentVerdict:
    observer = Client(stage.observer)
    assert (await observer.get(Namespace, stage.namespace)).name == stage.namespace
    assert await observer.list(Pod, stage.namespace) == []
    scheme = stage.observer.server.partition("://")[0]
    SEEN.append(f"{stage.namespace} {logic} {stage.transport.server} {scheme}")
    stage.report("scaling to four")
    await anyio.sleep(0.05)
    if logic == "original":
        return IncidentVerdict(ok=False, deleted=3, created=2, seconds=1.234567, explanation="three went")
    return IncidentVerdict(ok=True, deleted=1, created=0, seconds=1.5)


async def hold_always(stage: IncidentStage, logic: Logic) -> IncidentVerdict:
    return IncidentVerdict(ok=True, writes=0)


async def break_down(stage: IncidentStage, logic: Logic) -> IncidentVerdict:
    async with anyio.create_task_group():
        raise RuntimeError("the flood ran dry")


async def never_end(stage: IncidentStage, logic: Logic) -> IncidentVerdict:
    stage.report("waiting for ever")
    await anyio.sleep_forever()


quick = Incident("quick", "ends at once", play_quickly)
lucky = Incident("lucky", "the original gets through", hold_always)
broken = Incident("broken", "cannot be played", break_down)
endless = Incident("endless", "never ends", never_end)


def crowd(names: Iterable[str]) -> tuple[list[int], list[Incident]]:
    """Incidents that end once AT_ONCE are played, the last the longest; and how many were, each time."""
    playing: list[str] = []
    counts: list[int] = []

    async def play(stage: IncidentStage, logic: Logic) -> IncidentVerdict:
        playing.append(stage.namespace)
        counts.append(len(playing))
        SEEN.append(stage.namespace)
        with anyio.move_on_after(0.3):
            while len(playing) < AT_ONCE:
                await anyio.sleep(0.01)
        playing.remove(stage.namespace)
        return IncidentVerdict(ok=logic == "ours")

    return counts, [Incident(name, name, play, seconds=number) for number, name in enumerate(names)]
