"""One more version of the doors, in a module of its own."""

from reconcile import Object, resource
from tests.testing.doors import DoorStatus, OlderDoorSpec


@resource("example.com/v1alpha1", kind="Door")
class OldestDoor(Object):
    spec: OlderDoorSpec
    status: DoorStatus = DoorStatus()
