"""The lamps of a release whose specs have a field more."""

from attrs import frozen

from reconcile import Object, resource
from tests.webhooks.lamps import GROUP, LampStatus


@frozen
class ColouredSpec:
    watts: int = 1
    colour: str | None = None


@resource(f"{GROUP}/v1", kind="Lamp")
class ColouredLamp(Object):
    spec: ColouredSpec = ColouredSpec()
    status: LampStatus = LampStatus()
