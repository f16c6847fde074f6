"""A handler of events on kopf: it gets each event of a watch, and kopf keeps nothing of it."""

from typing import Any

import cost_kopf
import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    cost_kopf.configure(settings)


@kopf.on.event(*cost_kopf.KIND)
async def keep(spec: kopf.Spec, **_: Any) -> None:
    cost_kopf.keep(spec)
