"""The largest objects that the schemas admit: none holds the event loop, or takes much memory."""

from typing import Any

import pytest
from attrs import frozen

from controllers import autoscaling, fleets, nodegroups, workergroups
from reconcile import Context, Controller, Object, ObjectMeta, resource
from reconcile.models import decode
from reconcile.testing import FakeClient, assert_bounded
from reconcile.testing.bounds import Unbounded
from tests.controllers.autoscaling import autoscaler
from tests.controllers.fleets import fleet
from tests.controllers.nodegroups import autoscaler as node_autoscaler
from tests.controllers.pipelines import controller as pipelines
from tests.controllers.pipelines import pipeline, source
from tests.controllers.ray_runs import cluster


def cases() -> list[Any]:
    scaler = decode(autoscaling.PodAutoscaler, autoscaler("model"))
    return [
        pytest.param(pipelines, pipeline(), id="registry-secrets"),
        pytest.param(autoscaling.controller, scaler, id="pod-autoscalers"),
        pytest.param(workergroups.controller, cluster(2), id="worker-groups"),
        pytest.param(fleets.make_controllers()[0], fleet(), id="fleets"),
        pytest.param(nodegroups.controller, node_autoscaler(), id="node-groups"),
    ]


@pytest.mark.rule("tenant-10")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("controller", "obj"), cases())
async def test_no_object_that_the_schema_admits_causes_too_much_work(
    controller: Controller[Any], obj: Object
) -> None:
    weighed = await assert_bounded(controller, obj, FakeClient(source()))
    assert {one.path for one in weighed}


@frozen
class NoteSpec:
    lines: tuple[str, ...] = ("a",)
    copies: int = 1


@resource("example.com/v1")
class Note(Object):
    spec: NoteSpec = NoteSpec()


async def test_a_controller_whose_work_grows_with_a_number_is_reported_with_the_field() -> None:
    async def keep(ctx: Context[Note]) -> None:
        [None] * min(ctx.object.spec.copies, 10_000_000)

    notes = Controller(Note, keep, operator="example.com")
    with pytest.raises(Unbounded, match=r"spec\.copies: blocked the loop for \d+ ms, took \d+ MB") as found:
        await assert_bounded(notes, Note(metadata=ObjectMeta("a", "default")), FakeClient())
    assert {one.path for one in found.value.measured} == {"spec.copies"}


async def test_a_controller_whose_work_grows_with_a_list_is_reported_with_the_field() -> None:
    async def keep(ctx: Context[Note]) -> None:
        found: tuple[str, ...] = ()
        for line in ctx.object.spec.lines[:15_000]:
            found = (*found, line)

    notes = Controller(Note, keep, operator="example.com")
    with pytest.raises(Unbounded, match=r"spec\.lines\[\*\]: blocked the loop"):
        await assert_bounded(notes, Note(metadata=ObjectMeta("a", "default")), FakeClient())


async def test_the_work_of_the_server_and_of_awaited_calls_does_not_count() -> None:
    async def keep(ctx: Context[Note]) -> None:
        for _ in range(3):
            await ctx.client.list(Note, live=True)

    notes = Controller(Note, keep, operator="example.com")
    weighed = await assert_bounded(notes, Note(metadata=ObjectMeta("a", "default")), FakeClient())
    assert {"spec.lines[*]", "spec.lines[0]", "spec.copies"} <= {one.path for one in weighed}
