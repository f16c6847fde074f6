"""Strategies make what the class allows: the server takes it, and it survives its JSON."""

import datetime
import enum
import itertools
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings

from controllers.workergroups import RayCluster
from reconcile import UNSET, Condition, Object, ObjectMeta, Quantity, field, resource
from reconcile.kinds import Pod
from reconcile.models import Schema, UnsetType, decode, encode
from reconcile.testing import FakeClient
from reconcile.testing.strategies import objects
from tests.models.triggers import Burst, Cron


class Speed(enum.Enum):
    SLOW = "slow"
    FAST = "fast"


@frozen
class Port:
    number: Annotated[int, Schema(minimum=1, maximum=65535, format="int32")]
    target: int | str | None = None


@frozen
class GateSpec:
    image: Annotated[str, Schema(pattern="^[a-z]+:[0-9]$", max_length=9)]
    replicas: Annotated[int, Schema(minimum=0)] = 1
    colour: str | UnsetType = UNSET
    speed: Speed = Speed.SLOW
    ports: Annotated[tuple[Port, ...], Schema(list_type="map", list_map_keys=("number",))] = ()
    names: Annotated[
        tuple[Annotated[str, Schema(min_length=1)], ...], Schema(list_type="set", max_items=2)
    ] = ()
    trigger: Cron | Burst | None = None
    memory: Quantity | None = None
    every: datetime.timedelta | None = None
    since: datetime.datetime | None = None
    limits: Mapping[str, int] = field(factory=dict)
    template: Mapping[str, Any] = field(factory=dict)


@frozen
class GateStatus:
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1")
class Gate(Object):
    spec: GateSpec
    status: GateStatus = GateStatus()


@given(objects(Gate))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_generated_objects_round_trip_through_json(gate: Gate) -> None:
    assert decode(Gate, encode(gate)) == gate


@pytest.mark.rule("model-accepted")
def test_the_server_accepts_generated_objects() -> None:
    client = FakeClient(Gate(metadata=ObjectMeta("other", "default"), spec=GateSpec(image="a:1")))
    numbers = itertools.count()

    @given(objects(Gate))
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def taken(gate: Gate) -> None:
        body = encode(gate.with_metadata(name=f"made-{next(numbers)}"))
        del body["status"]
        assert client.add(body)["spec"]["image"] == gate.spec.image

    taken()


@given(objects(RayCluster), objects(Pod))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_objects_of_bundled_kinds_can_be_generated(cluster: RayCluster, pod: Pod) -> None:
    assert decode(RayCluster, encode(cluster)) == cluster
    assert decode(Pod, encode(pod)) == pod
