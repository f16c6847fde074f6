"""A version of the doors that lacks a field of theirs."""

from attrs import frozen

from reconcile import Object, resource
from tests.testing.doors import DoorStatus


@frozen
class PlainDoorSpec:
    colour: str


@resource("example.com/v2", kind="Door")
class PlainDoor(Object):
    spec: PlainDoorSpec
    status: DoorStatus = DoorStatus()
