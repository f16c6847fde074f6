"""A kind with a status and two versions that have the same fields, which no functions convert."""

from typing import Final

from attrs import frozen

from reconcile import Object, resource

GROUP: Final = "light.example.com"


@frozen
class LampSpec:
    watts: int = 1


@frozen
class LampStatus:
    lit: bool = False


@resource(f"{GROUP}/v1", kind="Lamp")
class Lamp(Object):
    spec: LampSpec = LampSpec()
    status: LampStatus = LampStatus()


@resource(f"{GROUP}/v1beta1", kind="Lamp")
class LampBeta(Object):
    spec: LampSpec = LampSpec()
    status: LampStatus = LampStatus()
