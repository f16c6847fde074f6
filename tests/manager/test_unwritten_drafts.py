"""A draft that is not written to the end does not start where an object of kopf waits for it."""

import logging
from typing import Any

import pytest
from attrs import frozen

from reconcile import Context, Controller, Object, ObjectMeta, Predecessor, Write, resource
from reconcile.errors import PredecessorActive, UnwrittenDraft
from reconcile.kinds import Event, Pod
from reconcile.manager.predecessor_check import PredecessorCheck
from reconcile.models import definition_of
from tests.helpers.pods import pod
from tests.helpers.scenarios import in_world
from tests.manager.test_takeover import Played, played, stamp

pytestmark = pytest.mark.rule("takeover-kopf")

COPY = {"kopf.zalando.org/last-handled-configuration": '{"spec":{"token":"hunter2"}}'}


@frozen
class PlainStatus:
    phase: str = ""


@resource("example.com/v1")
class Plain(Object):
    """A kind whose status is an ordinary field."""

    status: PlainStatus = PlainStatus()


async def leave(ctx: Context[Plain]) -> None: ...


def stamps(unwritten: Any = ("keep", "resize"), selector: str = "") -> Controller[Pod]:
    return Controller(
        Pod,
        stamp,
        writes=[Pod, Write(Pod, ("patch",), subresource="status")],
        name="stamps",
        operator="example.com",
        selector=selector or None,
        predecessor=Predecessor.kopf("stamps on kopf", unwritten=unwritten),
    )


async def refusal(here: Played, controller: Controller[Pod], **options: Any) -> str:
    try:
        await here.runs(here.manager(controller, **options))
    except BaseException as error:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, UnwrittenDraft):
            raise
        return str(error)
    return ""


async def with_a_pod_of_kopf(here: Played) -> None:
    await here.user.create(pod("new"))
    await here.user.create(pod("kept", annotations=COPY))


@in_world(played)
async def test_a_draft_does_not_start_where_an_object_of_kopf_waits_for_it(here: Played) -> None:
    await with_a_pod_of_kopf(here)
    said = await refusal(here, stamps())
    assert said.startswith(
        "stamps: keep, resize of the draft are not written, and pods default/kept was kept"
    )
    assert "take their names out of unwritten=" in said
    assert here.writes == []


@in_world(played)
async def test_a_draft_starts_where_kopf_never_was(here: Played) -> None:
    await here.user.create(pod("new"))
    assert await refusal(here, stamps()) == ""
    assert here.writes


@in_world(played)
async def test_a_draft_that_is_written_takes_objects_over(here: Played) -> None:
    await with_a_pod_of_kopf(here)
    assert await refusal(here, stamps(())) == ""
    assert (await here.user.get(Pod, "kept", "default")).metadata.annotations == {}


@in_world(played)
async def test_with_take_over_a_draft_starts_and_leaves_the_objects_of_kopf_alone(here: Played) -> None:
    await with_a_pod_of_kopf(here)
    before = await here.user.get(Pod, "kept", "default")
    assert await refusal(here, stamps(), take_over=True) == ""
    assert await here.user.get(Pod, "kept", "default") == before
    assert "stamped" in (await here.user.get(Pod, "new", "default")).metadata.labels


@in_world(played)
async def test_a_draft_in_shadow_starts_and_shows_its_writes_to_the_objects_of_kopf(
    here: Played, caplog: pytest.LogCaptureFixture
) -> None:
    await with_a_pod_of_kopf(here)
    with caplog.at_level(logging.INFO, "reconcile"):
        assert await refusal(here, stamps(), dry_run=True) == ""
    lines = [record.getMessage() for record in caplog.records]
    assert any("pods/kept changes=['.metadata.labels: nothing -> " in line for line in lines)
    assert any("last-handled-configuration" in line for line in lines)
    assert not any("UnwrittenDraft" in line or "hunter2" in line for line in lines)
    assert here.writes == []
    assert await here.user.list(Event) == []


@in_world(played)
async def test_a_recent_writer_of_a_status_that_is_no_subresource_is_named(here: Played) -> None:
    definition = definition_of(Plain)
    del definition["spec"]["versions"][0]["subresources"]
    await here.user.create(definition)
    made = await here.user.create(Plain(metadata=ObjectMeta("one", "default", labels={"a": "b"})))
    rival = here.user.with_options(field_manager="rival-manager")
    await rival.raw.merge(made, {"status": {"phase": "Ready"}}, guard={})
    here.clock.advance(20)
    plains = Controller(Plain, leave, predecessor=Predecessor("Rival"))
    check = PredecessorCheck(here.transport, here.clock, frozenset({"user"}))
    with pytest.raises(PredecessorActive, match="'rival-manager' wrote the status of default/one 20 s ago"):
        await check.check([plains])
    here.clock.advance(600)
    await check.check([plains])
