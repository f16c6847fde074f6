"""A run can write a status in every form in which `reconcile models` writes one."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from reconcile import Condition, Context, Controller, Object, ObjectMeta, resource
from reconcile.testing import FakeClient, run_once
from tests.helpers.scenarios import simulated


@frozen(kw_only=True)
class KeptStatus:
    phase: str
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1")
class Kept(Object):
    """Has a status with a required field, which a new object does not have yet."""

    status: KeptStatus | None = None


@resource("example.com/v1")
class Loose(Object):
    """Has a status of whatever form."""

    status: Mapping[str, Any] | None = None


@simulated
async def test_the_first_status_of_an_object_is_written() -> None:
    async def keep(ctx: Context[Kept]) -> None:
        ctx.status(phase="Pending")

    kept = Kept(metadata=ObjectMeta("a", "default"))
    client = FakeClient(kept)
    for writes in (["patch kepts/status default/a"], []):
        done = await run_once(Controller(Kept, keep), kept, client)
        assert (done.error, done.writes) == (None, writes)
    stored = await client.get(Kept, "a", "default")
    assert stored.status is not None
    assert stored.status.phase == "Pending"


@simulated
async def test_a_field_of_a_status_of_whatever_form_is_written_by_its_name() -> None:
    async def keep(ctx: Context[Loose]) -> None:
        ctx.status(phase="Pending", readyReplicas=2)
        ctx.condition("Ready", True, reason="Up")

    loose = Loose(metadata=ObjectMeta("a", "default"))
    client = FakeClient(loose)
    for writes in (["patch looses/status default/a"], []):
        done = await run_once(Controller(Loose, keep), loose, client)
        assert (done.error, done.writes) == (None, writes)
    stored = await client.get(Loose, "a", "default")
    assert stored.status is not None
    assert (stored.status["phase"], stored.status["readyReplicas"]) == ("Pending", 2)
