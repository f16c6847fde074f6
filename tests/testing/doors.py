"""A kind of two versions, for tests: the same fields, other defaults."""

from attrs import frozen

from reconcile import Object, ObjectMeta, resource


@frozen
class DoorSpec:
    colour: str
    locks: int = 1


@frozen
class OlderDoorSpec:
    colour: str
    locks: int = 3


@frozen
class DoorStatus:
    open: bool = False


@resource("example.com/v1")
class Door(Object):
    spec: DoorSpec
    status: DoorStatus = DoorStatus()


@resource("example.com/v1beta1", kind="Door")
class OlderDoor(Object):
    spec: OlderDoorSpec
    status: DoorStatus = DoorStatus()


NEW = Door(metadata=ObjectMeta("new", "default"), spec=DoorSpec("red", locks=2))
OLD = OlderDoor(metadata=ObjectMeta("old", "default"), spec=OlderDoorSpec("blue"))
