"""An operator with all that a chart can have: webhooks, policies, versions that are converted."""

from collections.abc import Sequence

from attrs import frozen

from reconcile import Context, Controller, Manager, Object, resource
from reconcile.kinds import ConfigMap, Pod
from reconcile.models import Rule
from reconcile.webhooks import Admission, AdmissionRequest, Refusal, converts


@frozen
class OldDoorSpec:
    size: int = 1


@frozen
class DoorSpec:
    width: int = 1
    """As `{{ .Values.width }}` of a chart would have it, which this text does not mean."""


@resource("doors.example.com/v1beta1", kind="Door")
class OldDoor(Object):
    spec: OldDoorSpec = OldDoorSpec()


@resource("doors.example.com/v1", kind="Door")
class Door(Object):
    spec: DoorSpec = DoorSpec()


@converts(OldDoor, Door)
def up(old: OldDoor) -> Door:
    return Door(spec=DoorSpec(old.spec.size))


@converts(Door, OldDoor)
def down(new: Door) -> OldDoor:
    return OldDoor(spec=OldDoorSpec(new.spec.width))


def wide(door: Door, old: Door | None, request: AdmissionRequest) -> Sequence[Refusal]:
    return [] if door.spec.width > 0 else [Refusal("must be wide", "spec.width")]


async def keep(ctx: Context[Door]) -> None: ...


named_well = Rule('object.metadata.name != "door"')
doors = Controller(
    Door,
    keep,
    owns=[ConfigMap],
    admission=[
        Admission(Door, refuses=wide),
        Admission(Pod, rules=[named_well], operator="doors.example.com"),
    ],
)
manager = Manager(doors)
served_over_tls = Manager(doors, serve_certificates="/certificates/pages")
with_certificates = Manager(doors, webhook_certificates="/certificates/webhooks")
