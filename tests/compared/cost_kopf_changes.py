"""A handler of changes on kopf: it gets each new state until it succeeds, which kopf keeps in the object."""

from typing import Any

import cost_kopf
import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    cost_kopf.configure(settings)


@kopf.on.resume(*cost_kopf.KIND)
@kopf.on.create(*cost_kopf.KIND)
@kopf.on.update(*cost_kopf.KIND, field="spec")
async def keep(spec: kopf.Spec, **_: Any) -> None:
    cost_kopf.keep(spec)
